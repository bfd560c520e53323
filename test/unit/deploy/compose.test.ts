import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { BOUNDS } from "../../../src/config/bounds.ts";
import { readKeys } from "../../../src/config/keys-file.ts";
import type { Settings } from "../../../src/config/settings.ts";
import { deployed, documentsOf, settingsOf } from "../../support/documents/deployment.ts";
import { describeWith } from "../../support/programs/suites.ts";

/** The parts of a Compose file that the tests read. */
interface Compose {
  services: Record<string, Service>;
  networks: { inside: { ipam: { config: { subnet: string }[] } } };
  volumes: object;
  secrets: Record<string, { file: string }>;
}

interface Service {
  image: string;
  build?: { context: string; dockerfile: string };
  environment?: Record<string, string>;
  command?: string[];
  deploy?: { replicas: number };
  depends_on?: Record<string, { condition: string }>;
  healthcheck?: { test: string[] };
  networks: string[] | { inside: { ipv4_address: string } };
  ports?: string[];
  secrets?: string[];
  volumes?: string[];
  stop_grace_period?: string;
}

const { services, networks, secrets, volumes } = documentsOf("compose.yaml")[0] as Compose;
/** Connections of one node to PostgreSQL, and the connections that a server reserves. */
const CONNECTIONS = 16;
const SPARE = 10;
/** The time that `serve` gives itself after the drain, in ms. */
const CLOSE_MS = 2_000;

// The secrets are made by a shell with the usual programs.
describeWith(["coreutils"], "compose.yaml", () => {
  /** A folder in which `make-secrets.sh` has run, and what it printed. */
  const folder = mkdtempSync(join(tmpdir(), "interlock-secrets-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "make-secrets.sh"), deployed("make-secrets.sh"));
  const makeSecrets = () => spawnSync("sh", ["make-secrets.sh"], { cwd: folder, encoding: "utf8" });
  const printed = makeSecrets();
  const secretFile = (name: string) => join(folder, secrets[name]!.file);
  const secretAt = (path: string) => readFileSync(secretFile(path.replace("/run/secrets/", "")), "utf8");

  const nodes: [name: string, service: Service, settings: Settings][] = Object.entries(services)
    .filter(([, { build }]) => build)
    .map(([name, service]) => [name, service, settingsOf(service.environment!, secretAt)]);
  const addressOf = ({ networks: own }: Service) => (own as { inside: { ipv4_address: string } }).inside.ipv4_address;
  const countOf = ({ deploy }: Service) => deploy?.replicas ?? 1;

  test("every node of compose.yaml has valid settings, and there are two nodes of each role", () => {
    const roles = nodes.flatMap(([, service, settings]) => Array(countOf(service)).fill(settings.roles.join()));
    expect(roles.sort()).toEqual(["gateway", "gateway", "orchestrator", "orchestrator", "worker", "worker"]);
    for (const [name, , settings] of nodes) {
      expect(settings.host, name).toBe("0.0.0.0");
      expect(settings.auth, name).toEqual({ kind: "keys", file: "/run/secrets/keys.yaml" });
      expect(new URL((settings.store as { url: string }).url).hostname).toBe("postgres");
      expect((settings.bus as { urls: string[] }).urls.map((url) => new URL(url).hostname)).toEqual(["redis"]);
    }
  });

  test("the nodes use the Dockerfile's image, wait for their servers, and have time to shut down", () => {
    for (const [name, service, { drainMs }] of nodes) {
      expect(service.build, name).toEqual({ context: "..", dockerfile: "deploy/Dockerfile" });
      expect(service.image).toBe("interlock");
      expect(service.depends_on).toEqual({
        postgres: { condition: "service_healthy" },
        redis: { condition: "service_healthy" },
      });
      expect(service.secrets).toEqual(["store", "bus", "keys.yaml"]);
      expect(Number.parseInt(service.stop_grace_period!, 10) * 1_000, name).toBeGreaterThan(drainMs + CLOSE_MS);
    }
    for (const name of ["postgres", "redis"]) expect(services[name]!.healthcheck).toBeDefined();
    expect(Object.keys(volumes)).toEqual([services["postgres"]!.volumes![0]!.split(":")[0]]);
  });

  test("PostgreSQL allows all the nodes' connections, and Redis evicts nothing that is in use", () => {
    const count = nodes.reduce((sum, [, service]) => sum + countOf(service), 0);
    const { command: postgres } = services["postgres"]!;
    const room = Number(postgres!.find((word) => word.startsWith("max_connections="))!.split("=")[1]);
    expect(room).toBeGreaterThanOrEqual(count * CONNECTIONS + SPARE);
    expect(postgres).toContain("synchronous_commit=on");
    const { command: redis } = services["redis"]!;
    expect(redis![redis!.indexOf("--maxmemory-policy") + 1]).toBe("noeviction");
  });

  test("the proxy knows the gateways, is trusted by them, and does not buffer streams", () => {
    const config = deployed("nginx.conf");
    const asked = [...config.matchAll(/^ {2}server (\S+):(\d+)/gm)].map(([, host, port]) => [host, Number(port)]);
    const gateways = nodes.filter(([, , { roles }]) => roles.includes("gateway"));
    expect(asked).toEqual(gateways.map(([name, , { port }]) => [name, port]));
    const { subnet } = networks.inside.ipam.config[0]!;
    for (const [name, service, settings] of gateways) {
      // Nothing else in the network may say for whom it asks.
      expect(settings.proxies, name).toEqual([addressOf(services["proxy"]!)]);
      expect(settings.hosts).toContain(name);
      expect(addressOf(service).split(".").slice(0, 3)).toEqual(subnet.split(".").slice(0, 3));
    }
    const [, inside] = /listen (\d+);/.exec(config)!;
    expect(services["proxy"]!.ports).toEqual([`127.0.0.1:3000:${inside}`]);
    expect(Object.keys(services["proxy"]!.depends_on!)).toEqual(gateways.map(([name]) => name));
    // The address that a client claims is replaced; nothing is appended to it.
    expect(config).toContain("proxy_set_header X-Forwarded-For $remote_addr;");
    expect(config).toContain("proxy_buffering off;");
    const [, patience] = /proxy_read_timeout (\d+)s;/.exec(config)!;
    expect(Number(patience) * 1_000).toBeGreaterThan(2 * BOUNDS.heartbeatMs);
    const bodies = [...config.matchAll(/client_max_body_size (\d+)m;/g)].map(([, mib]) => Number(mib) * 1_048_576);
    expect(bodies).toEqual([gateways[0]![2].maxBodyBytes, BOUNDS.conversationBytes, BOUNDS.importBytes]);
  });

  test("the proxy has room for all streams of the gateways, each of which takes two connections", () => {
    const main = deployed("nginx-main.conf");
    const gateways = nodes.filter(([, , { roles }]) => roles.includes("gateway")).length;
    const [, connections] = /worker_connections (\d+);/.exec(main)!;
    const [, files] = /worker_rlimit_nofile (\d+);/.exec(main)!;
    expect(Number(connections)).toBeGreaterThan(2 * gateways * BOUNDS.streams);
    expect(Number(files)).toBeGreaterThan(Number(connections));
    const mounted = ["./nginx-main.conf:/etc/nginx/nginx.conf:ro", "./nginx.conf:/etc/nginx/conf.d/default.conf:ro"];
    expect(services["proxy"]!.volumes).toEqual(mounted);
  });

  test.each([
    "/session/import",
    "/session/a/fork",
    "/session/a/rollback",
    "/session/a/export",
    "/session/a/messages/m/edit",
    "/session/a/messages/m/resend",
    "/v1/chat/completions",
    "/v1/responses",
    "/mcp",
  ])("the proxy waits for an answer to %s as long as a client does", (path) => {
    const locations = [...deployed("nginx.conf").matchAll(/^ {2}location (=|~) (\S+) \{\n([\s\S]*?)^ {2}\}/gm)];
    const isMeant = (kind: string, name: string) => (kind === "=" ? name === path : new RegExp(name).test(path));
    const meant = locations.filter(([, kind, name]) => isMeant(kind!, name!));
    expect(meant.map(([, , , body]) => /proxy_read_timeout (\d+)s;/.exec(body!)?.[1])).toEqual(["660"]);
  });

  test("secrets are kept out of the image and out of version control", () => {
    expect(deployed(".gitignore")).toBe("secrets\n");
    for (const { file } of Object.values(secrets)) expect(file).toMatch(/^\.\/secrets\//);
    const [first, ...kept] = deployed("Dockerfile.dockerignore")
      .split("\n")
      .filter((line) => line && !line.startsWith("#"));
    expect(first).toBe("*");
    expect(kept.filter((line) => line.includes("deploy"))).toEqual([]);
  });

  test("secrets are files that are made once: no environment and no command has one", async () => {
    expect(printed).toMatchObject({ status: 0, stderr: "" });
    const key = /^your key: ([0-9a-f]{48})\n$/.exec(printed.stdout)![1]!;
    const sha256 = createHash("sha256").update(key).digest("hex");
    expect(readKeys(secretAt("keys.yaml"))).toEqual({ ok: true, keys: [{ owner: "me", operator: true, sha256 }] });
    // Those of other users of the host stop at the folder.
    expect(statSync(join(folder, "secrets")).mode & 0o777).toBe(0o700);
    const before = secretAt("store");
    expect(makeSecrets().status).not.toBe(0);
    expect(secretAt("store")).toBe(before);

    const passwords = ["store", "bus"].map((name) => new URL(secretAt(name)).password);
    expect(passwords).toEqual([secretAt("postgres-interlock"), secretAt("redis.conf").trim().split(" ")[1]]);
    expect(new Set([...passwords, secretAt("postgres"), key]).size).toBe(4);
    const { postgres, redis } = services;
    expect(postgres!.secrets).toEqual(["postgres", "postgres-interlock"]);
    expect(redis!.secrets).toEqual(["redis.conf"]);
    expect(redis!.command!.slice(0, 2)).toEqual(["redis-server", "/run/secrets/redis.conf"]);
    // The variables that are given to containers name files, addresses and numbers.
    expect(deployed("compose.yaml")).not.toMatch(/\$\{|PASSWORD:/);
    for (const [name, { volumes: own }] of nodes) expect(own, name).toContain("./secrets/providers:/run/providers:ro");
  });

  test("programs may run as users of their own: the worker of run-as.yaml is root with the rights for that alone", () => {
    const { worker } = (documentsOf("run-as.yaml")[0] as { services: Record<string, object> }).services;
    expect(worker).toEqual({ user: "0:0", cap_add: ["SETUID", "SETGID", "KILL", "DAC_READ_SEARCH"] });
    expect(deployed("compose.yaml")).toContain("cap_drop: [ALL]");
  });
});
