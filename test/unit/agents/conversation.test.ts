import { describe, expect, test } from "vitest";
import { toModelMessages } from "../../../src/agents/conversation.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { createRunStage, messageOf, turnOf } from "../../support/agents/run-stage.ts";

const read = (history: Message[], input = "now") =>
  toModelMessages(turnOf(input, { history }), createRunStage().control.loadImage);

const user = (content: string, rest: Partial<Message> = {}) => messageOf("user", content, rest);
const assistant = (content: string, rest: Partial<Message> = {}) => messageOf("assistant", content, rest);

/** `user: text`, one line for each message. */
const linesOf = async (history: Message[], input = "now") =>
  (await read(history, input)).map(({ role, content }) => `${role}: ${content}`);

describe("the messages that a model receives", () => {
  const sub = { kind: "sub", name: "s", depth: 1, path: ["m", "s"] } as const;
  const unheard = [
    assistant("failed", { status: "error" }),
    user("waiting", { status: "queued" }),
    assistant("by a sub-agent", { agent: { ...sub, path: [...sub.path] } }),
    messageOf("system", "system"),
    messageOf("tool", "tool"),
    assistant(""),
  ];
  test.each([
    ["the conversation so far, and then the user's message", [assistant("two")], ["assistant: two", "user: now"]],
    ["a reply that was interrupted", [assistant("tw", { status: "interrupted" })], ["assistant: tw", "user: now"]],
    [
      "no failed, queued, system, tool, empty or sub-agent messages",
      [...unheard, assistant("two")],
      ["assistant: two", "user: now"],
    ],
  ])("a model receives %s", async (_, rest, lines) => {
    expect(await linesOf([user("one"), ...rest])).toEqual(["user: one", ...lines]);
  });

  test("consecutive messages of one role become one message, as after a failed turn without a reply", async () => {
    expect(await linesOf([user("one"), assistant("no", { status: "error" })])).toEqual(["user: one\n\nnow"]);
  });

  test("a model receives the user's message once, even if the history already contains it", async () => {
    const turn = turnOf("now");
    const messages = await toModelMessages({ ...turn, history: [turn.input] }, createRunStage().control.loadImage);
    expect(messages).toEqual([{ role: "user", content: "now" }]);
  });

  test("text of an earlier attempt follows the question, and the model is asked to continue", async () => {
    const history = [
      user("one"),
      assistant("two", { runId: "run_0" as RunId }),
      assistant("I was say", { runId: "run_1" as RunId, status: "interrupted" }),
    ];
    const asked = expect.stringMatching(/^user: .*interrupted/);
    const before = ["user: one", "assistant: two", "user: now", "assistant: I was say"];
    expect(await linesOf(history)).toEqual([...before, asked]);
  });

  test.each([
    ["within a word", "Turn left, then right.", 13, "Turn left, [The user"],
    ["after a word", "Turn left, then right.", 15, "Turn left, then [The user"],
    ["in Chinese, within a word", "前方路口左转，然后靠右。", 3, "前方 [The user"],
    ["within an emoji", "Yes 👍 ok", 5, "Yes [The user"],
    ["at the beginning", "Turn left.", 0, "[The user"],
    ["at the end", "Turn left.", 10, "Turn left."],
  ])("an interrupted speech ends with the last whole word heard: %s", async (_, content, playedUpTo, expected) => {
    const [, reply] = await linesOf([user("one"), assistant(content, { playedUpTo })]);
    expect(reply!.slice("assistant: ".length, "assistant: ".length + expected.length)).toBe(expected);
    expect(reply!.includes("did not hear the rest")).toBe(playedUpTo < content.length);
  });

  test.each([
    ["cut, the ones after it were not heard", [6, undefined, undefined], ["Let me [The user", "now"]],
    ["heard, the ones before it were too", [2, 5, undefined], ["Let me look.\n\nIt is [The user", "now"]],
    ["at its beginning, it was not heard", [undefined, 0, undefined], ["Let me look.\n\n[The user", "now"]],
    [
      "short of its end by no word, all was heard",
      [11, undefined, undefined],
      ["Let me look.\n\nIt is noon.\n\nBye.", "now"],
    ],
  ])("of a turn with several messages: if one is %s", async (_, positions, expected) => {
    const texts = ["Let me look.", "It is noon.", "Bye."];
    const run = { runId: "run_0" as RunId };
    const replies = texts.map((text, index) => {
      const playedUpTo = positions[index];
      return assistant(text, { ...run, ...(playedUpTo !== undefined && { playedUpTo }) });
    });
    const [, ...lines] = (await read([user("one"), ...replies])).map(({ content }) => content);
    expect(lines.map((line, index) => String(line).slice(0, expected[index]!.length))).toEqual(expected);
    expect(String(lines[0]).match(/did not hear/g)?.length ?? 0).toBe(expected[0]!.includes("[The user") ? 1 : 0);
  });

  test("text of an earlier attempt at this turn is whole, because its speech goes on", async () => {
    const said = assistant("I was saying", { runId: "run_1" as RunId, status: "interrupted", playedUpTo: 5 });
    expect((await linesOf([user("one"), said])).at(-2)).toBe("assistant: I was saying");
  });
});

describe("the limits of a conversation", () => {
  test("a model receives the newest 200 messages, beginning with the user's", async () => {
    const history = Array.from({ length: 501 }, (_, n) => messageOf(n % 2 ? "assistant" : "user", `${n}`));
    const messages = await read([...history, assistant("501")]);
    expect(messages[0]).toEqual({ role: "user", content: "302" });
    expect(messages).toHaveLength(201);
    const odd = await read([...history.slice(0, 500), user("500"), assistant("501"), assistant("502")]);
    expect(odd[0]!.role).toBe("user");
  });

  test("a model receives at most 256 KiB of a conversation, counted as UTF-8, without gaps", async () => {
    const history = [user("old"), assistant("音".repeat(60_000)), user("音".repeat(60_000)), assistant("new")];
    const messages = await read(history);
    expect(messages.map(({ content }) => content.length)).toEqual([60_000, 3, 3]);
  });

  test("a model receives the user's whole message, whatever its length", async () => {
    const long = "x".repeat(1_000_000);
    expect(await read([user("one"), assistant("two")], long)).toHaveLength(3);
  });

  test("a model receives the newest eight images, and no bytes of the others", async () => {
    const stage = createRunStage();
    const loaded: string[] = [];
    const images = Array.from({ length: 10 }, (_, n) => stage.storeImage(Buffer.from([n]), "image/png"));
    const history = images
      .slice(0, 9)
      .flatMap((image, n) => [user(`picture ${n}`, { images: [image] }), assistant("nice")]);
    const turn = turnOf("", { history, input: user("", { images: images.slice(9) }) });
    const messages = await toModelMessages(turn, (image) => {
      loaded.push(image.hash);
      return stage.control.loadImage(image);
    });
    expect(loaded).toEqual(images.slice(2).map(({ hash }) => hash));
    expect(messages[0]).toEqual({ role: "user", content: "picture 0" });
    const file = { type: "file", mediaType: "image/png", data: Buffer.from([9]) };
    expect(messages.at(-1)).toEqual({ role: "user", content: [file] });
  });
});

describe("a summary in a conversation", () => {
  const history = [
    user("one"),
    assistant("two"),
    user("three"),
    assistant("four", { status: "error" }),
    user("five"),
    assistant("six"),
  ];
  const NOTE = "user: What was said before, in short:\n<summary>\nNumbers.\n</summary>";
  const lines = async (upTo: number, keptTurns: number, past = history) => {
    const summary = { text: "Numbers.", upTo: past[upTo]?.id ?? user("elsewhere").id };
    const turn = { ...turnOf("now", { history: past }), summary };
    const messages = await toModelMessages(turn, createRunStage().control.loadImage, keptTurns);
    return messages.map(({ role, content }) => `${role}: ${content}`);
  };

  test("messages that a summary covers are left out; later messages and the newest turns are kept", async () => {
    expect(await lines(1, 0)).toEqual([`${NOTE}\n\nthree\n\nfive`, "assistant: six", "user: now"]);
    expect(await lines(5, 0)).toEqual([`${NOTE}\n\nnow`]);
    expect(await lines(5, 1)).toEqual([`${NOTE}\n\nfive`, "assistant: six", "user: now"]);
    expect(await lines(1, 9)).toEqual([
      `${NOTE}\n\none`,
      "assistant: two",
      "user: three\n\nfive",
      "assistant: six",
      "user: now",
    ]);
  });

  test("a summary's range may end with a message that models do not receive", async () => {
    expect(await lines(3, 0)).toEqual([`${NOTE}\n\nfive`, "assistant: six", "user: now"]);
  });

  test("a summary's range may be older than the history, or end within a turn", async () => {
    expect(await lines(99, 0)).toHaveLength(5);
    expect(await lines(0, 0, history.slice(0, 2))).toEqual([NOTE, "assistant: two", "user: now"]);
  });

  test("a summary does not raise the limit of a request", async () => {
    const large = [user("a".repeat(262_144)), user("b")];
    expect(await lines(99, 4, large)).toEqual([`${NOTE}\n\nb\n\nnow`]);
  });
});
