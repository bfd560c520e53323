import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Certificate } from "./certificate.ts";
import { freePort } from "./free-port.ts";
import { startProxy } from "./proxy-process.ts";

/** Its message when it listens. */
const STARTED = /process up/;

export interface PgBouncer {
  /** The URL of the database behind it. */
  readonly url: string;
  /** Lead new connections to this database from now on. */
  leadTo(database: string): Promise<void>;
}

/**
 * A real PgBouncer in front of a database; it ends with the test.
 * @param certificate of the pooler and of its servers, which both sides require then
 */
export async function startPgBouncer(
  path: string,
  database: string,
  mode: "session" | "transaction",
  certificate?: Certificate,
): Promise<PgBouncer> {
  const own = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "interlock-pgbouncer-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  // It refuses to run as root, and another user reads its settings.
  await chmod(folder, 0o755);
  const [keyFile, certificateFile] = [join(folder, "server.key"), join(folder, "server.crt")];
  if (certificate) {
    await writeFile(keyFile, certificate.key);
    await writeFile(certificateFile, certificate.text);
  }
  const tls = `
    client_tls_sslmode = require
    client_tls_key_file = ${keyFile}
    client_tls_cert_file = ${certificateFile}
    server_tls_sslmode = verify-full
    server_tls_ca_file = ${certificateFile}`;
  const file = join(folder, "pgbouncer.ini");
  const write = async (to: string) => {
    const { hostname, port, username, password } = new URL(to);
    const text = `[databases]
    * = host=${hostname} port=${port} user=${decodeURIComponent(username)} password='${decodeURIComponent(password)}'
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = ${own}
    unix_socket_dir =
    auth_type = any
    server_login_retry = 1
    pool_mode = ${mode}${certificate ? tls : ""}`;
    await writeFile(file, text.replace(/^ +/gm, ""));
  };
  await write(database);
  const user = process.getuid?.() === 0 ? ["-u", "nobody"] : [];
  const child = await startProxy(path, [...user, file], { started: STARTED, end: "SIGKILL" });
  return {
    url: `postgres://postgres:any@127.0.0.1:${own}${new URL(database).pathname}`,
    async leadTo(other) {
      await write(other);
      child.kill("SIGHUP");
    },
  };
}
