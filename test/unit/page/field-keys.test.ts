import { expect, test } from "vitest";
import { isLeaveKey, isSendKey } from "../../../page/parts/commands/field-keys.ts";

const enter = { key: "Enter", shiftKey: false, nativeEvent: { isComposing: false, keyCode: 13 } };
const leave = { key: "Escape", shiftKey: false, nativeEvent: { isComposing: false, keyCode: 27 } };

test("Enter sends the text of a field, and Shift+Enter or another key does not", () => {
  expect(isSendKey(enter)).toBe(true);
  expect(isSendKey({ ...enter, shiftKey: true })).toBe(false);
  expect(isSendKey(leave)).toBe(false);
});

test("Escape leaves a field", () => {
  expect(isLeaveKey(leave)).toBe(true);
  expect(isLeaveKey(enter)).toBe(false);
});

test("keys of the input method neither send nor leave: during a composition, and in Safari right after it", () => {
  for (const nativeEvent of [
    { isComposing: true, keyCode: 229 },
    { isComposing: true, keyCode: 13 },
    { isComposing: false, keyCode: 229 },
  ]) {
    expect(isSendKey({ ...enter, nativeEvent })).toBe(false);
    expect(isLeaveKey({ ...leave, nativeEvent })).toBe(false);
  }
});
