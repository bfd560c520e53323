import { expect, test } from "vitest";
import { Watchers } from "../../../src/client/watchers.ts";

test("a function that watches twice is called twice, and stops watching once for each", () => {
  const watchers = new Watchers();
  let calls = 0;
  const watcher = () => {
    calls += 1;
  };
  const [first, second] = [watchers.subscribe(watcher), watchers.subscribe(watcher)];
  watchers.notify();
  expect(calls).toBe(2);
  first();
  first();
  watchers.notify();
  expect(calls).toBe(3);
  expect(watchers.isEmpty).toBe(false);
  second();
  expect(watchers.isEmpty).toBe(true);
});

test("a change reaches those that watched when it came, and none that one of them adds", () => {
  const watchers = new Watchers();
  const heard: string[] = [];
  const leave = watchers.subscribe(() => {
    heard.push("first");
    leaveLast();
    watchers.subscribe(() => heard.push("added"));
    leave();
  });
  const leaveLast = watchers.subscribe(() => heard.push("last"));
  watchers.notify();
  expect(heard).toEqual(["first", "last"]);
});
