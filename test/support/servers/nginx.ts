import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { deployed } from "../documents/deployment.ts";
import { describeWith } from "../programs/suites.ts";
import { freePort } from "./free-port.ts";
import { startProxy } from "./proxy-process.ts";

/** nginx's message when it listens. */
const STARTED = /start worker process/;

interface NginxOptions {
  /** Leave out the part about streams while no gateway answers: nginx in a usual configuration. */
  isPlain?: boolean;
}
type StartNginx = (port: number, options?: NginxOptions) => Promise<string>;

/** A suite that needs nginx. */
export function describeWithNginx(name: string, suite: (start: StartNginx) => void): void {
  describeWith(["nginx"], name, (path) => suite((port, options) => startNginx(path, port, options)));
}

/**
 * A real nginx with `deploy/nginx-main.conf` and `deploy/nginx.conf`, on a free port, in front of a node at `port`; it
 * ends with the test.
 *
 * @returns its address
 */
async function startNginx(path: string, port: number, { isPlain = false }: NginxOptions = {}): Promise<string> {
  const own = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "interlock-nginx-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder};`);
  const site = deployed("nginx.conf")
    .replace(/server gateway-1:\d+/, `server 127.0.0.1:${port}`)
    .replace(/^.*server gateway-\d.*\n/gm, "")
    .replace(/listen \d+;/, `listen 127.0.0.1:${own};`);
  const text = deployed("nginx-main.conf")
    // Workers of a master that is not root run as the same user.
    .replace(/^user .*;/m, process.getuid?.() === 0 ? "user root;" : "")
    .replace(/^worker_processes .*;/m, "worker_processes 1;")
    .replace(/^pid .*;/m, `daemon off; pid ${folder}/nginx.pid;`)
    .replace(/^error_log .*;/m, "error_log stderr notice;")
    .replace(/^ *include .*mime.types;/m, temporary.join(" "))
    .replace(/access_log .*;/, "access_log off;")
    .replace(
      /^ *include .*conf.d.*;/m,
      isPlain ? site.replace(/^.*(proxy_intercept_errors|error_page).*\n/gm, "") : site,
    );
  const file = join(folder, "nginx.conf");
  await writeFile(file, text);
  await startProxy(path, ["-e", "stderr", "-p", folder, "-c", file], { started: STARTED, end: "SIGTERM" });
  return `http://127.0.0.1:${own}`;
}
