import fc from "fast-check";
import { expect, test } from "vitest";
import { ConversationCut, type KeptConversation } from "../../../src/gateway/http/conversation-cut.ts";

const LIST: KeptConversation = { list: "messages" };
const MIB = 1_048_576;

/** In one buffer that grows: bodies arrive here in pieces of a few bytes, and in hundreds of megabytes. */
class Kept {
  #bytes = Buffer.alloc(65_536);
  length = 0;
  /** The most bytes that were kept at once. */
  most = 0;

  from(offset: number): Buffer {
    return this.#bytes.subarray(offset, this.length);
  }

  append(piece: Buffer): void {
    const length = this.length + piece.length;
    if (length > this.#bytes.length) this.#bytes = Buffer.concat([this.from(0)], 2 * length);
    piece.copy(this.#bytes, this.length);
    this.length = length;
    this.most = Math.max(this.most, length);
  }

  cutTo(length: number): void {
    this.length = length;
  }

  cutOut(from: number, to: number): void {
    this.#bytes.copyWithin(from, to, this.length);
    this.length -= to - from;
  }
}

function cut(text: string, { maxBytes = MIB, pieceBytes = 65_536 } = {}) {
  const kept = new Kept();
  const cutting = new ConversationCut(LIST, maxBytes, kept);
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += pieceBytes) cutting.add(bytes.subarray(at, at + pieceBytes));
  return { text: kept.from(0).toString(), exceedsLimit: cutting.exceedsLimit, isCut: cutting.isCut, most: kept.most };
}

const photo = `data:image/png;base64,${"A".repeat(2_000)}`;
const said = (index: number, rest: object = {}) => ({ role: "user", content: `words ${index}`, ...rest });

test("a body without photos is the same as before, however it arrives, and one with photos lacks earlier ones", () => {
  const string = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom('","messages":[', "\\", '\\"]}', photo));
  const value = fc.jsonValue({ maxDepth: 3, stringUnit: "binary" });
  const message = fc.oneof(value, fc.record({ role: fc.constant("user"), content: string, parts: fc.array(value) }));
  const body = fc.record({ before: value, messages: fc.array(message), metadata: fc.record({ messages: value }) });
  fc.assert(
    fc.property(body, fc.integer({ min: 1, max: 40 }), fc.constantFrom(0, 2), (given, pieceBytes, indent) => {
      const text = JSON.stringify(given, null, indent);
      const kept = cut(text, { pieceBytes });
      expect(kept.isCut).toBe(false);
      const whole = JSON.parse(kept.text);
      expect({ ...whole, messages: [] }).toEqual(JSON.parse(JSON.stringify({ ...given, messages: [] })));
      const isShown = (each: unknown) => !JSON.stringify(each).includes(photo);
      expect(whole.messages).toHaveLength(given.messages.length);
      for (const [index, each] of given.messages.entries()) {
        if (isShown(each) || index === given.messages.length - 1) {
          expect(whole.messages[index]).toEqual(JSON.parse(JSON.stringify(each)));
        } else expect(isShown(whole.messages[index])).toBe(true);
      }
    }),
  );
});

test("images of earlier messages are left out, and those of the last one are kept", () => {
  const messages = [
    said(1, { url: photo }),
    said(2, { parts: [{ url: photo }, { text: "here" }] }),
    said(3, { url: photo }),
  ];
  expect(JSON.parse(cut(JSON.stringify({ messages })).text)).toEqual({
    messages: [said(1, { url: "" }), said(2, { parts: [{ url: "" }, { text: "here" }] }), said(3, { url: photo })],
  });
});

test.each([
  [5_000, said(0).content, 150_000],
  [40, "long ".repeat(100_000), 600_000],
])("of %i earlier messages the newest are kept, in bounded memory", (count, content, maxBytes) => {
  const messages = Array.from({ length: count }, (_, index) => ({ ...said(index), content: `${index} ${content}` }));
  const text = JSON.stringify({ model: "m", messages, user: "ann" });
  const { text: kept, most, isCut } = cut(text, { maxBytes });
  expect(isCut).toBe(true);
  const read = JSON.parse(kept);
  expect(read).toMatchObject({ model: "m", user: "ann" });
  expect(read.messages).toEqual(messages.slice(-read.messages.length));
  expect(most).toBeLessThanOrEqual(ConversationCut.maxKept(maxBytes));
  expect(most).toBeGreaterThan(MIB / 16);
});

test("an earlier message that is too large is left out, and the last one or a field that is too large is refused", () => {
  const large = said(1, { content: "x".repeat(2_000) });
  const limit = { maxBytes: 1_000 };
  const body = (messages: object[], rest: object = {}) => JSON.stringify({ messages, ...rest });
  const fitting = cut(body([large, said(2)]), limit);
  expect([JSON.parse(fitting.text), fitting.exceedsLimit, fitting.isCut]).toEqual([
    { messages: [said(2)] },
    false,
    true,
  ]);
  expect(cut(body([said(2), large]), limit).exceedsLimit).toBe(true);
  expect(cut(body([said(2)], { rest: large }), limit).exceedsLimit).toBe(true);
});
