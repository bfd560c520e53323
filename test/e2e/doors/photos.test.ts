import { randomBytes } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { MAX_IMAGE, MAX_IMAGES } from "../../../src/protocol/client-message.ts";
import { refused } from "../../support/clients/e2e-client.ts";
import { HeadlessChat } from "../../support/clients/headless-chat.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

/** Messages with photos through every door that takes them, at the limits of a message and in long chats. */
const node = await NodeUnderTest.start({}, afterAll);

const base64 = (characters: number) => randomBytes((characters / 4) * 3).toString("base64");
const uriOf = (data: string) => `data:image/jpeg;base64,${data}`;
/** A photo of 600 kB. */
const PHOTO = uriOf(base64(800_000));
const largest = Array.from({ length: MAX_IMAGES }, () => uriOf(base64(MAX_IMAGE)));

const sizesOf = async (sessionId: string) =>
  (await node.messages(sessionId)).flatMap(({ images = [] }) => images.map(({ bytes }) => bytes));

const uiPart = (url: string) => ({ type: "file" as const, mediaType: "image/jpeg", url });
const completion = (content: unknown) => ({ model: "general", messages: [{ role: "user", content }] });
const response = (content: unknown) => ({ model: "general", input: [{ role: "user", content }] });

test("a chat goes on after many photos, though each request repeats all of them", async () => {
  const chatId = node.newId("photos");
  const chat = new HeadlessChat(node.url, chatId, { body: { agentId: "general" } });
  for (let turn = 0; turn < 4; turn++) {
    await chat.sendMessage({ text: "hello", files: Array.from({ length: 4 }, () => uiPart(PHOTO)) });
  }
  await chat.sendMessage({ text: "nod" });
  expect(chat.errors).toEqual([]);
  expect(chat.text).toBe("Yes.");
  expect(await sizesOf(chatId)).toEqual(Array(16).fill(600_000));
});

const text = { type: "text", text: "hello" };
const parts = [text, ...largest.map(uiPart)];
test.each<[path: string, body: () => object]>([
  [
    "/v1/chat/completions",
    () => completion([text, ...largest.map((url) => ({ type: "image_url", image_url: { url } }))]),
  ],
  [
    "/v1/responses",
    () =>
      response([{ ...text, type: "input_text" }, ...largest.map((url) => ({ type: "input_image", image_url: url }))]),
  ],
  ["/api/chat", () => ({ id: node.newId("largest"), messages: [{ role: "user", parts }] })],
  ["/message", () => ({ type: "chat", content: "hello", images: largest.map((data) => ({ data })) })],
])("the largest message is taken by %s", async (path, body) => {
  const { status, headers, text } = await node.post(path, body());
  expect(status).toBe(200);
  const sessionId = headers["interlock-session"] ?? JSON.parse(text).sessionId;
  expect(await sizesOf(sessionId)).toEqual(Array(MAX_IMAGES).fill((MAX_IMAGE / 4) * 3));
});

test("a message that is too large is refused with what fits, and the next one is answered", async () => {
  const chatId = node.newId("too-large");
  const chat = new HeadlessChat(node.url, chatId);
  await chat.sendMessage({ text: "hello", files: [...largest, ...largest].map(uiPart) });
  expect(chat.errors.map(({ message }) => JSON.parse(message).error)).toEqual([
    "The last message has at most 10485760 bytes, with its images.",
  ]);
  await chat.sendMessage({ text: "nod" });
  expect(chat.text).toBe("Yes.");
  const images = [...largest, ...largest].map((data) => ({ data }));
  const { errorCode, error } = await refused(node.post("/message", { type: "chat", content: "hello", images }));
  expect([errorCode, error]).toEqual(["too_large", "A request has at most 10485760 bytes."]);
});
