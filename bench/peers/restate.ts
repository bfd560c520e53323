import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Child } from "../support/child.ts";
import { measureRate } from "../support/command-rate.ts";
import { Connection } from "../support/connection.ts";
import { median } from "../support/statistics.ts";
import { printTable, type Row } from "../support/table.ts";

/**
 * Compares Interlock with Restate's server at the same work: one writer per key, one state transition, its event and a
 * receipt under an idempotency key, on disk before the answer. `node bench/peers/restate.ts`
 *
 * The packages are not dependencies of the project: the first use installs them into a separate folder.
 */
const PACKAGES = ["@restatedev/restate-server@1.7.12", "@restatedev/restate-sdk@1.17.2"];
const FOLDER = process.env["BENCH_PEERS"] ?? join(tmpdir(), "interlock-peers");
const ROUND_MS = 2_000;
const ROUNDS = 3;
const START_MS = 60_000;

function install(): void {
  if (existsSync(join(FOLDER, "node_modules/@restatedev/restate-sdk/package.json"))) return;
  console.log(`installing ${PACKAGES.join(" and ")} into ${FOLDER}`);
  const options = ["--prefix", FOLDER, "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact"];
  execFileSync("npm", ["install", ...options, ...PACKAGES], { stdio: "inherit" });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}

interface Restate {
  ingress: string;
  stop: () => Promise<void>;
}

async function startRestate(): Promise<Restate> {
  const data = mkdtempSync(join(tmpdir(), "interlock-restate-"));
  const [ingress, admin, node, service] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
  const sdk = join(FOLDER, "node_modules/@restatedev/restate-sdk");
  // By default the SDK logs two lines for each command.
  process.env["RESTATE_LOGGING"] = "ERROR";
  const endpoint = await Child.start("../peers/restate-service.ts", [sdk, `${service}`]);
  const server = spawn(join(FOLDER, "node_modules/.bin/restate-server"), ["--base-dir", data], {
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      RESTATE_LOG_FILTER: "error",
      RESTATE_DISABLE_TELEMETRY: "true",
      RESTATE_BIND_IP: "127.0.0.1",
      RESTATE_INGRESS__BIND_PORT: `${ingress}`,
      RESTATE_ADMIN__BIND_PORT: `${admin}`,
      RESTATE_BIND_PORT: `${node}`,
      // The defaults, stated because without an fsync the comparison would be unfair.
      RESTATE_BIFROST__LOCAL__ROCKSDB_DISABLE_WAL_FSYNC: "false",
      RESTATE_LOG_SERVER__ROCKSDB_DISABLE_WAL_FSYNC: "false",
    },
  });
  const stop = async () => {
    if (server.exitCode === null) {
      server.kill("SIGTERM");
      await once(server, "exit");
    }
    await endpoint.stop();
    rmSync(data, { recursive: true, force: true });
  };
  try {
    await register(`http://127.0.0.1:${admin}`, endpoint.url);
  } catch (error) {
    await stop();
    throw error;
  }
  return { ingress: `http://127.0.0.1:${ingress}`, stop };
}

/** Resolves when the server knows the service. */
async function register(admin: string, uri: string): Promise<void> {
  const until = performance.now() + START_MS;
  for (;;) {
    try {
      const body = JSON.stringify({ uri, use_http_11: false });
      const headers = { "Content-Type": "application/json" };
      const answer = await fetch(`${admin}/deployments`, { method: "POST", headers, body });
      if (answer.ok) return;
      throw new Error(`${answer.status} ${await answer.text()}`);
    } catch (error) {
      if (performance.now() > until) throw error;
      await pause(250);
    }
  }
}

install();
const restate = await startRestate();
const ours = await Child.start("interlock.ts");
try {
  const connection = await Connection.open(ours.url);
  const ids: string[] = [];
  for (let index = 0; index < 64; index++) {
    const { session } = await connection.post<{ session: { id: string } }>("/session/create", {
      agentId: "music",
      activate: true,
    });
    ids.push(session.id);
  }
  connection.close();
  let serial = 0;
  const verb = (turn: number) => (turn % 2 ? "resume" : "pause");
  const key = () => ({ "Idempotency-Key": `k${serial++}` });
  const results = new Map<string, number[]>();
  for (let round = 0; round <= ROUNDS; round++) {
    // The first round warms up.
    if (round === 1) results.clear();
    for (const clients of [1, 64]) {
      const { perSecond: own } = await measureRate(ours.url, clients, ROUND_MS, (each, client, turn) =>
        each.request("POST", `/session/${ids[client]}/${verb(turn)}`, "", key()),
      );
      const { perSecond: theirs } = await measureRate(restate.ingress, clients, ROUND_MS, (each, client, turn) =>
        each.request("POST", `/floor/f${client}/${verb(turn)}`, "{}", key()),
      );
      for (const [name, value] of [
        ["own", own],
        ["theirs", theirs],
      ] as const) {
        const known = results.get(`${name} ${clients}`) ?? [];
        results.set(`${name} ${clients}`, [...known, value]);
      }
    }
  }
  const of = (name: string) => median(results.get(name)!);
  const rows: Row[] = [1, 64].map((clients) => ({
    what: `keyed commands/s, ${clients} ${clients === 1 ? "client" : "clients"}, compared with Restate`,
    ours: of(`own ${clients}`),
    reference: of(`theirs ${clients}`),
    unit: "/s",
  }));
  printTable(rows);
} finally {
  await ours.stop();
  await restate.stop();
}
