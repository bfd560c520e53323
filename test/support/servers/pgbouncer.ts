import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { onTestFinished, test } from "vitest";
import { reportUntested } from "../runner/untested.ts";
import { freePort } from "./free-port.ts";

const PROGRAM = "pgbouncer";
/** Debian installs it in a folder that is on root's PATH only. */
const PATH = [process.env["PATH"], "/usr/sbin"].join(delimiter);
const isThere = spawnSync(PROGRAM, ["--version"], { env: { PATH } }).status === 0;
/** Its message when it listens. */
const STARTED = /process up/;

/** A test that needs PgBouncer. Without it the test is skipped with a message; where `CI` is set it fails. */
export function testWithPgBouncer(name: string, run: () => Promise<void>): void {
  if (isThere) return void test(name, run);
  reportUntested(name, "pgbouncer is missing: install Debian's package pgbouncer");
}

/** A real PgBouncer in front of a database; it ends with the test. @returns the database's URL behind it */
export async function startPgBouncer(database: string, mode: "session" | "transaction"): Promise<string> {
  const { hostname, port, username, password, pathname } = new URL(database);
  const own = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "interlock-pgbouncer-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  // It refuses to run as root, and another user reads its settings.
  await chmod(folder, 0o755);
  const secret = decodeURIComponent(password);
  const text = `[databases]
    * = host=${hostname} port=${port} user=${decodeURIComponent(username)} password='${secret}'
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = ${own}
    unix_socket_dir =
    auth_type = any
    pool_mode = ${mode}`;
  const file = join(folder, "pgbouncer.ini");
  await writeFile(file, text.replace(/^ +/gm, ""));
  const user = process.getuid?.() === 0 ? ["-u", "nobody"] : [];
  const child = spawn(PROGRAM, [...user, file], { env: { PATH }, stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "close");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let said = "";
  await new Promise<void>((resolve, reject) => {
    child.stderr.setEncoding("utf8").on("data", (piece) => {
      said += piece;
      if (STARTED.test(said)) resolve();
    });
    void ended.then(() => reject(new Error(`pgbouncer ended: ${said}`)));
  });
  return `postgres://postgres:any@127.0.0.1:${own}${pathname}`;
}
