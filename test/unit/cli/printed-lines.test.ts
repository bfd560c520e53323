import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { PlainScreen } from "../../../src/cli/chat-screen.ts";
import { paintFor, plain } from "../../../src/cli/paint.ts";
import { complain, printJson, printLines } from "../../../src/cli/printed-lines.ts";

/** An output that keeps its text. */
function recorder(isTTY = false) {
  const written: string[] = [];
  return { isTTY, write: (text: string) => written.push(text), text: () => written.join("") };
}

const HOSTILE = "\u001b]0;PWNED\u0007\u001b[2J\u009b31m\u202egnp\u2067\u200f\ufeff\r\nforged line\u2028another";
const HARMLESS = " ]0;PWNED [2J 31mgnp forged line another";

it("a text from outside forges no line, moves no cursor and turns no direction", () => {
  const [out, err, terminal] = [recorder(), recorder(), recorder(true)];
  printLines(out, [`stream ${HOSTILE}`, "next"]);
  expect(out.text()).toBe(`stream ${HARMLESS}\nnext\n`);
  complain(err, HOSTILE);
  expect(err.text()).toBe(`interlock: ${HARMLESS}\n`);
  printLines(terminal, [HOSTILE]);
  expect(terminal.text()).toBe(`${HARMLESS}\n`);
});

it("a terminal gets the colours of a line, and a pipe gets none", () => {
  const [terminal, out] = [recorder(true), recorder()];
  const paint = paintFor(terminal, {});
  const hostile = "\u001b[31mmpv\u001b[1m\u001b[0;32m";
  const line = `${paint("active", "▶")} ${paint("title", hostile)} ${hostile}`;
  printLines(terminal, [line]);
  const harmless = " [31mmpv [1m [0;32m";
  expect(terminal.text()).toBe(`\u001b[32m▶\u001b[39m \u001b[1m${harmless}\u001b[22m ${harmless}\n`);
  printLines(out, [line]);
  expect(out.text()).toBe(`▶ ${harmless} ${harmless}\n`);
});

it("joiners of scripts and emoji stay", () => {
  const out = recorder();
  printLines(out, ["👩‍👩‍👧 می‌خواهم 导航"]);
  expect(out.text()).toBe("👩‍👩‍👧 می‌خواهم 导航\n");
});

it("JSON keeps its values, and shows characters that are not seen as escapes", () => {
  const out = recorder();
  printJson(out, { reason: HOSTILE });
  expect(out.text()).not.toMatch(/[\p{Cf}\p{Zl}\u007f-\u009f]/u);
  expect(JSON.parse(out.text())).toEqual({ reason: HOSTILE });
});

it("a chat shows a reply with its line breaks, and nothing else of it acts on the terminal", () => {
  const out = recorder();
  const screen = new PlainScreen(out, plain);
  screen.line(`✗ ${HOSTILE}`);
  screen.stream(`agent ${HOSTILE} › `, "one\r\n\u202etwo\u001b[2J");
  screen.endText();
  expect(out.text()).toBe(`✗ ${HARMLESS}\nagent ${HARMLESS} › one \ntwo [2J\n`);
});

/** The files that write to a terminal themselves: the outputs, and one that draws over its own line. */
const OUTPUTS = ["printed-lines.ts", "chat-screen.ts", "prove.ts"];

it("no command writes past the outputs", () => {
  const folder = join(import.meta.dirname, "../../../src/cli");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  const writing = files.filter((file) =>
    /\.write\(|console\.|plainLine/.test(readFileSync(join(folder, file), "utf8")),
  );
  expect(writing.toSorted()).toEqual(OUTPUTS.toSorted());
});
