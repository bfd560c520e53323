import { expect, test } from "vitest";
import { en } from "../../../page/words/en.ts";
import { failureText, PageError } from "../../../page/words/failure-text.ts";
import { fill, type Say } from "../../../page/words/sentence.ts";
import { zh } from "../../../page/words/zh.ts";

const inEnglish: Say = (key, values) => fill(en[key], values);
const inChinese: Say = (key, values) => fill(zh[key], values);

test("a failure with no more than its code is a sentence of the page's language", () => {
  const failure = { code: "agent_busy", message: "The agent is busy with another turn." };
  expect(failureText(failure, inEnglish)).toBe("The agent is busy with another turn.");
  expect(failureText(failure, inChinese)).toBe("智能体正忙于另一轮对话。");
});

test("what the server says beyond a code stays in its words, once", () => {
  const message = "Line 2 of the import: role is missing.";
  const failure = { code: "bad_request", message, facts: { issues: [{ message: "role is missing" }] } };
  expect(failureText(failure, inEnglish)).toBe(message);
  expect(failureText(failure, inChinese)).toBe(`请求的格式有误。（${message}）`);
  const plain = { ...failure, message: "The request is malformed." };
  expect(failureText(plain, inEnglish)).toBe("The request is malformed. role is missing");
  expect(failureText(plain, inChinese)).toBe("请求的格式有误。（role is missing）");
});

test("a stored message without a code is known by its text; an agent's own words stay as they are", () => {
  expect(failureText({ message: "The run was lost with its worker." }, inChinese)).toBe("运行随其工作进程丢失。");
  expect(failureText({ message: "out of tapes" }, inChinese)).toBe("out of tapes");
  expect(failureText({ code: "of_a_newer_server", message: "It is new." }, inChinese)).toBe("It is new.");
});

test("the page's own failures, and the client's, are in its language alone", () => {
  expect(failureText(new PageError("log.version", { version: "9" }), inChinese)).toBe("不支持文件的版本 9。");
  const away = { code: "unreachable", message: "http://127.0.0.1:3000 does not answer." };
  expect(failureText(away, inEnglish)).toBe("The server does not answer.");
  expect(failureText(away, inChinese)).toBe("服务器没有应答。");
});
