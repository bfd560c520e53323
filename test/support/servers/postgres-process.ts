import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { chown, mkdtemp, open, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { keptFolder } from "../runner/kept-folder.ts";
import { freePort } from "./free-port.ts";

const run = promisify(execFile);

const PASSWORD = "correct horse";
const READY = /database system is ready to accept (read-only )?connections/;
/** PostgreSQL refuses to run as root. The first of these users that exists is used. */
const USERS = ["postgres", "nobody"];
const FLAGS = ["max_connections=200", "lc_messages=C", "unix_socket_directories=", "autovacuum_naptime=5s"];

/** What fills a disk, in bytes: as small as the last write that a disk may still have room for. */
const FILLER_BYTES = 4_096;
/** The largest file of a server whose disk is said to be full, in bytes: less than a file of its write-ahead log. */
const FULL_BYTES = 65_536;

export interface PostgresProcessOptions {
  /**
   * false: without fsync, because a power failure is not tested; its other settings are those of production
   */
  isDurable: boolean;
  /** Keep the data on a disk that the test fills, of this size if this machine allows a mount. */
  diskMib?: number;
}

type Made = Pick<PostgresProcessOptions, "isDurable"> & { isMounted: boolean };

interface Identity {
  uid?: number;
  gid?: number;
}

/** A server in a separate process, on a free port of 127.0.0.1, with its data in a temporary folder. */
export class PostgresProcess {
  readonly url: string;
  readonly #folder: string;
  readonly #port: number;
  readonly #binaries: string;
  readonly #identity: Identity;
  readonly #flags: readonly string[];
  readonly #isMounted: boolean;
  readonly #data: string;
  #hasPanicked = false;
  #child: ChildProcess | undefined;
  #exit: Promise<unknown> = Promise.resolve();

  private constructor(binaries: string, folder: string, port: number, identity: Identity, options: Made) {
    const { isDurable, isMounted } = options;
    this.url = `postgres://postgres:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}/postgres`;
    this.#binaries = binaries;
    this.#folder = folder;
    this.#data = join(folder, "data");
    this.#port = port;
    this.#identity = identity;
    this.#isMounted = isMounted;
    this.#flags = [...FLAGS, `fsync=${isDurable ? "on" : "off"}`, "listen_addresses=127.0.0.1"];
  }

  /** @throws Error with its output, if it does not start */
  static async start(binaries: string, options: PostgresProcessOptions): Promise<PostgresProcess> {
    const identity = await findIdentity();
    const folder = await mkdtemp(join(tmpdir(), "interlock-postgres-"));
    const { isDurable, diskMib } = options;
    const isMounted = diskMib !== undefined && (await mountDisk(folder, diskMib));
    await own(folder, identity);
    await copyTree(await emptyCluster(binaries, identity), join(folder, "data"));
    const server = new PostgresProcess(binaries, folder, await freePort(), identity, {
      isDurable,
      isMounted,
    });
    await server.#start();
    return server;
  }

  async restart(how: "orderly" | "crash" = "orderly"): Promise<void> {
    await this.#end(how);
    await this.#start();
  }

  async stop(): Promise<void> {
    await this.#end("crash");
    if (this.#isMounted) unmount(this.#folder);
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** A copy of this server that follows it, on a port of its own; it ends with the test at the latest. */
  async startStandby(): Promise<PostgresProcess> {
    const folder = await mkdtemp(join(tmpdir(), "interlock-postgres-"));
    await own(folder, this.#identity);
    const options = { isDurable: false, isMounted: false };
    const standby = new PostgresProcess(this.#binaries, folder, await freePort(), this.#identity, options);
    const flags = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync", `--pgdata=${standby.#data}`];
    // The folder may have links to some of the server's programs only.
    const binaries = dirname(await realpath(join(this.#binaries, "postgres")));
    await run(join(binaries, "pg_basebackup"), [...flags, `--dbname=${this.url}`], {
      cwd: folder,
      ...this.#identity,
    });
    await standby.#start();
    return standby;
  }

  /** Crash, and come back at the same port with the data of a standby that was promoted. */
  async replaceBy(standby: PostgresProcess): Promise<void> {
    await this.#end("crash");
    await standby.#end("orderly");
    await rm(this.#data, { recursive: true });
    await rename(standby.#data, this.#data);
    await standby.stop();
    await this.#start();
  }

  get #filler(): string {
    return join(this.#folder, "filler");
  }

  /**
   * Whether its disk is a mount. Without one, a full disk is a limit on the size of its files, which fails all writes.
   */
  get isMounted(): boolean {
    return this.#isMounted;
  }

  /** Whether the server has ended by itself. */
  get hasEnded(): boolean {
    return this.#child?.exitCode !== null;
  }

  /** Whether it has said that it cannot go on: it closes all connections then, and ends a moment later. */
  get hasPanicked(): boolean {
    return this.#hasPanicked;
  }

  /** Leave no room on its disk. */
  async fillDisk(): Promise<void> {
    if (!this.#isMounted) return await this.#limitFiles(String(FULL_BYTES));
    const file = await open(this.#filler, "a");
    const filler = Buffer.alloc(FILLER_BYTES);
    try {
      for (;;) await file.write(filler);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    } finally {
      await file.close();
    }
  }

  /** Make room again. A server that ended because it found none is started. */
  async freeDisk(): Promise<void> {
    if (this.#isMounted) await rm(this.#filler);
    else if (!this.hasEnded) await this.#limitFiles("unlimited");
    if (this.hasEnded) await this.#start();
  }

  /** The largest file that the server's processes may write: a soft limit, which they need no right to raise again. */
  async #limitFiles(bytes: string): Promise<void> {
    const pid = this.#child!.pid!;
    const children = (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).split(" ").filter(Boolean);
    // The first one starts the others: after it, those that it has started by now.
    for (const each of [String(pid), ...children]) {
      // As the server's user: root may lack the right to limit another user's processes.
      await run("prlimit", ["--pid", each, `--fsize=${bytes}:`], { ...this.#identity }).catch((error: Error) => {
        if (!error.message.includes("No such process")) throw error;
      });
    }
  }

  async #start(): Promise<void> {
    const flags = this.#flags.flatMap((flag) => ["-c", flag]);
    const data = ["-D", this.#data, "-p", String(this.#port)];
    const child = spawn(join(this.#binaries, "postgres"), [...data, ...flags], {
      cwd: this.#folder,
      stdio: ["ignore", "ignore", "pipe"],
      ...this.#identity,
    });
    this.#child = child;
    this.#hasPanicked = false;
    this.#exit = once(child, "exit");
    // The server ends with the test at the latest.
    const kill = () => {
      child.kill("SIGQUIT");
      if (this.#isMounted) unmount(this.#folder);
      rmSync(this.#folder, { recursive: true, force: true });
    };
    process.on("exit", kill);
    void this.#exit.then(() => process.off("exit", kill));
    let printed = "";
    const ready = new Promise<true>((resolve) => {
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        if (text.includes("PANIC:")) this.#hasPanicked = true;
        // Later output is read, so that the server does not block, and discarded.
        if (!READY.test(printed)) printed += text;
        if (READY.test(printed)) resolve(true);
      });
    });
    if ((await Promise.race([ready, this.#exit])) !== true) throw new Error(`PostgreSQL did not start\n${printed}`);
  }

  async #end(how: "orderly" | "crash"): Promise<void> {
    this.#child?.kill(how === "crash" ? "SIGQUIT" : "SIGINT");
    await this.#exit;
  }
}

/**
 * The data of a new server. `initdb` takes a second of a core and a copy a tenth of that, so it runs once for each
 * installed server.
 */
async function emptyCluster(binaries: string, identity: Identity): Promise<string> {
  const initdb = join(binaries, "initdb");
  const settings = ["--auth=scram-sha-256", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"];
  const { mtimeMs, size } = await stat(initdb);
  const key = [initdb, String(mtimeMs), String(size), JSON.stringify(identity), PASSWORD, ...settings];
  const kept = await keptFolder("postgres", key, async (target) => {
    // A folder in which `initdb` may write as another user, unlike below a home folder.
    const folder = await mkdtemp(join(tmpdir(), "interlock-initdb-"));
    try {
      const passwordFile = join(folder, "password");
      await writeFile(passwordFile, PASSWORD);
      for (const path of [folder, passwordFile]) await own(path, identity);
      const files = ["--pgdata", join(folder, "data"), `--pwfile=${passwordFile}`];
      await run(initdb, [...files, ...settings], { cwd: folder, ...identity });
      await copyTree(join(folder, "data"), join(target, "data"));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
  return join(kept, "data");
}

/** @returns whether this machine allows it: only root may mount, and in most containers not even root. */
async function mountDisk(folder: string, mib: number): Promise<boolean> {
  const asked = run("mount", ["-t", "tmpfs", "-o", `size=${mib}m`, "interlock-test", folder]);
  return await asked.then(
    () => true,
    () => false,
  );
}

/** Processes that still use it keep it until they end. */
function unmount(folder: string): void {
  execFileSync("umount", ["--lazy", folder]);
}

/** With owners and modes, which `fs.cp` does not keep and PostgreSQL requires. */
async function copyTree(from: string, to: string): Promise<void> {
  await run("cp", ["-a", from, to]);
}

async function own(path: string, { uid, gid }: Identity): Promise<void> {
  if (uid !== undefined) await chown(path, uid, gid!);
}

async function findIdentity(): Promise<Identity> {
  if (process.getuid?.() !== 0) return {};
  for (const user of USERS) {
    try {
      const [uid, gid] = await Promise.all(
        ["-u", "-g"].map(async (flag) => Number((await run("id", [flag, user])).stdout)),
      );
      return { uid: uid!, gid: gid! };
    } catch {
      // There is no such user: try the next one.
    }
  }
  throw new Error(`PostgreSQL refuses to be root, and there is no user ${USERS.join(" or ")}`);
}
