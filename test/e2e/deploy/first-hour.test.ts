import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readPage, root } from "../../docs/page.ts";
import { BARE_ENV } from "../../support/agents/bare-env.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { smallPostgres } from "../../support/servers/postgres-server.ts";

const { blocks } = readPage("docs/operate/first-hour.md");
/** The blocks that a reader runs, in order, and what the page shows of the output of each. */
const steps = blocks.flatMap(({ info, text }, index) => {
  const next = blocks[index + 1];
  return info === "sh" ? [{ text, printed: next?.info === "text" ? next.text : "" }] : [];
});
/** Printed after the output of a block. */
const END = "\u001e";
/** Where the hour stops, if a program that it waits for never answers. */
const HOUR_MS = 600_000;

/** What a page shows of an output: `…` is anything, and spaces at the ends of lines do not count. */
const patternOf = (printed: string) =>
  new RegExp(
    `^${printed
      .trim()
      .split("…")
      .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
      .join("[^]*?")}$`,
  );
const trimmed = (text: string) => text.trim().replace(/ +$/gm, "");

/** The ports of the page, and those of this run, which are free. */
async function portsOf(settings: string): Promise<Map<string, string>> {
  const ports = new Map<string, string>();
  for (const [, name, port] of settings.matchAll(/\b(redis|one|two|https|prometheus)=(\d+)/g)) {
    expect(name).toBeDefined();
    ports.set(port!, String(await freePort()));
  }
  return ports;
}

describeWith(
  [smallPostgres(), "pgDump", "redis", "nginx", "prometheus", "promtool", "curl", "openssl", "bash"],
  "the first hour of an operator",
  (startPostgres, ...paths) => {
    test(
      "every block of docs/operate/first-hour.md does what the page says, one after the other, in an empty folder",
      async () => {
        const server = await startPostgres();
        onTestFinished(() => server.stop());
        const folder = await mkdtemp(join(tmpdir(), "interlock-hour-"));
        onTestFinished(() => rm(folder, { recursive: true }));
        const [bin, place] = [join(folder, "bin"), join(folder, "hour")];
        for (const each of [bin, place]) await mkdir(each);
        await symlink(join(root, "bin/interlock.js"), join(bin, "interlock"));

        const { hostname, port, username, password } = new URL(server.url);
        const ports = await portsOf(steps[0]!.text);
        expect(ports.size).toBe(5);
        const own = (text: string) => [...ports].reduce((all, [shown, free]) => all.replaceAll(shown, free), text);
        const settings = own(steps[0]!.text).replace(
          "PGHOST=127.0.0.1 PGPORT=5432 PGUSER=postgres",
          `PGHOST=${hostname} PGPORT=${port} PGUSER=${username}`,
        );
        const script = [settings, ...steps.slice(1).map(({ text }) => text)].map((text) => `${text}printf '${END}'\n`);
        const file = join(folder, "hour.sh");
        await writeFile(file, script.join(""));

        const folders = [bin, dirname(process.execPath), ...paths.map((path) => dirname(path)), BARE_ENV["PATH"]];
        const shell = spawn("bash", [file], {
          cwd: place,
          env: { ...BARE_ENV, PATH: folders.join(delimiter), PGPASSWORD: decodeURIComponent(password) },
          stdio: ["ignore", "pipe", "pipe"],
        });
        onTestFinished(async () => {
          if (shell.exitCode !== null) return;
          const ended = once(shell, "exit");
          // Its trap ends what it started.
          shell.kill("SIGTERM");
          await ended;
        });
        let said = "";
        let printed = "";
        shell.stderr.setEncoding("utf8").on("data", (text) => (said += text));
        shell.stdout.setEncoding("utf8").on("data", (text) => (printed += text));
        const [code] = await once(shell, "close");
        const outputs = printed.split(END);
        const done = outputs.length - 1;
        const at = `after block ${done} of ${steps.length}: ${steps[done]?.text ?? ""}\n${outputs.at(-1)}\n${said}`;
        expect(code, at).toBe(0);
        expect(done).toBe(steps.length);
        for (const [index, step] of steps.entries()) {
          expect(trimmed(outputs[index]!), step.text).toMatch(patternOf(trimmed(own(step.printed))));
        }
        // The user's data was exported before it was deleted.
        expect(await readFile(join(place, "ann.jsonl"), "utf8")).toContain('"song');
      },
      HOUR_MS,
    );
  },
);
