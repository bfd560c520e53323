import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { freePort } from "./free-port.ts";
import { startProxy } from "./proxy-process.ts";

/** Its message when it listens. */
const STARTED = /process up/;

export interface PgBouncer {
  /** The URL of the database behind it. */
  readonly url: string;
}

/** A real PgBouncer in front of a database; it ends with the test. */
export async function startPgBouncer(
  path: string,
  database: string,
  mode: "session" | "transaction",
): Promise<PgBouncer> {
  const own = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "interlock-pgbouncer-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  // It refuses to run as root, and another user reads its settings.
  await chmod(folder, 0o755);
  const file = join(folder, "pgbouncer.ini");
  const { hostname, port, username, password, pathname } = new URL(database);
  const text = `[databases]
    * = host=${hostname} port=${port} user=${decodeURIComponent(username)} password='${decodeURIComponent(password)}'
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = ${own}
    unix_socket_dir =
    auth_type = any
    server_login_retry = 1
    pool_mode = ${mode}`;
  await writeFile(file, text.replace(/^ +/gm, ""));
  const user = process.getuid?.() === 0 ? ["-u", "nobody"] : [];
  await startProxy(path, [...user, file], { started: STARTED, end: "SIGKILL" });
  return { url: `postgres://postgres:any@127.0.0.1:${own}${pathname}` };
}
