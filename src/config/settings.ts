import { existsSync } from "node:fs";
import { isIP } from "node:net";
import { hostname } from "node:os";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { FLOOR_HASHES } from "../protocol/internal/hash.ts";
import { NODE_ROLES } from "../protocol/internal/node-report.ts";
import { parseAuth } from "./auth-setting.ts";
import { explain, explainIssues } from "./catalog/explanation.ts";
import { readFlags } from "./flags.ts";
import { nearest } from "./nearest.ts";
import { isLoopback, isNetwork } from "./network.ts";
import { duration, size } from "./quantities.ts";
import { parseRateLimits, USUAL_RATE_LIMITS, USUAL_RATE_LIMITS_TEXT } from "./rate-limits.ts";
import { withSecretFiles } from "./secret-files.ts";

const LOST_COMMITS = ["stop", "new-epoch"] as const;
const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;
/** The maximum length of a list. Each request is compared with every entry. */
const MAX_LIST = 64;

/**
 * A schema from a parser, which returns the value or a fault as a string. A fault never contains the value: an address
 * may contain a password.
 */
function read<T>(parse: (text: string) => { value: T } | string) {
  return z.string().transform((text, context) => {
    const parsed = parse(text);
    if (typeof parsed !== "string") return parsed.value;
    context.issues.push({ code: "custom", input: text, message: parsed });
    return z.NEVER;
  });
}

function wholeNumber(min: number, max: number) {
  const fault = `must be a whole number from ${min} to ${max}`;
  return read((text) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    return value >= min && value <= max ? { value } : fault;
  });
}

/** A schema for a comma-separated list. `parse` reads each entry and returns undefined for an invalid one. */
function list(what: string, parse: (name: string) => string | undefined) {
  return read((text) => {
    const names = text.split(",").map((name) => name.trim());
    if (names.length > MAX_LIST) return `must have at most ${MAX_LIST} entries`;
    const value = names.map(parse);
    const wrong = value.indexOf(undefined);
    return wrong < 0 ? { value: value as string[] } : `must be ${what}, separated by commas; entry ${wrong + 1} is not`;
  });
}

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?)*$/i;
const isHost = (text: string) => isIP(text) !== 0 || HOST_NAME.test(text);

const host = read((text) => (isHost(text) ? { value: text } : "must be an IP address or a host name, without a port"));

type StoreChoice = { kind: "sqlite"; file: string } | { kind: "postgres"; url: string };
type BusChoice = { kind: "memory" } | { kind: "redis"; urls: string[] };

const store = read<StoreChoice>((text) => {
  const forms = "must be sqlite:<file>, sqlite::memory: or postgres://user:password@host:port/database";
  if (/^postgres(ql)?:\/\//.test(text)) {
    return URL.canParse(text) ? { value: { kind: "postgres", url: text } } : forms;
  }
  if (!text.startsWith("sqlite:")) return forms;
  const file = text.slice("sqlite:".length);
  if (file === ":memory:") return { value: { kind: "sqlite", file } };
  return file === "" || file.startsWith(":") || file.startsWith("//") ? forms : { value: { kind: "sqlite", file } };
});

const REDIS = /^rediss?(\+sentinel)?:\/\/\S+$/;

const bus = read<BusChoice>((text) => {
  if (text === "memory") return { value: { kind: "memory" } };
  // Split only before a scheme: the Sentinels of one address are separated by commas too.
  const urls = text.trim().split(/\s*,\s*(?=[a-z+]+:\/\/)/);
  if (urls.length > MAX_LIST) return `must have at most ${MAX_LIST} entries`;
  const wrong = urls.findIndex((url) => !REDIS.test(url));
  if (wrong < 0) return { value: { kind: "redis", urls } };
  return `must be "memory", or redis://host:port, separated by commas where there are several; entry ${wrong + 1} is not`;
});

const auth = read(parseAuth);

const claim = z.string().max(1_024);

const rateLimits = read(parseRateLimits);

const proxies = list("addresses or networks, as in 10.0.0.0/8", (text) => (isNetwork(text) ? text : undefined));

const roles = read((text) => {
  const named = text.split(",").map((role) => role.trim());
  const isKnown = named.every((role) => (NODE_ROLES as readonly string[]).includes(role));
  return isKnown
    ? { value: NODE_ROLES.filter((role) => named.includes(role)) }
    : `must be some of ${NODE_ROLES.join(",")}, separated by commas`;
});

const origins = list("origins, as in https://app.example.com, or null", (text) => {
  if (text === "null") return text;
  const url = URL.parse(text);
  return url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/` ? url.origin : undefined;
});

const hosts = list("host names without a port", (text) => (isHost(text) ? text.toLowerCase() : undefined));

const USUAL_CATALOG = "config/agents_config.yaml";
/** The catalogue that is shipped with the program, for a working directory without one. */
export const SHIPPED_CATALOG = fileURLToPath(new URL("../../config/agents_config.yaml", import.meta.url));

/** All settings: how each is parsed, its default, and its meaning. `unset` describes the behaviour without a value. */
const Variables = z.object({
  HOST: host.prefault("127.0.0.1").describe("The address to listen on."),
  PORT: wholeNumber(0, 65_535).prefault("3000").describe("The port to listen on; 0 picks a free one."),
  INTERLOCK_CONFIG: z
    .string()
    .max(4_096)
    .optional()
    .meta({
      unset: `${USUAL_CATALOG}, or the shipped one`,
      description: "The file with the catalogue of agents. The node reloads it when it changes.",
    }),
  INTERLOCK_WEBHOOKS: z.string().max(4_096).optional().meta({
    unset: "none",
    description:
      "The file with webhooks: who is sent which events. The same on all nodes. The node reloads it when it changes.",
  }),
  INTERLOCK_STORE: store
    .prefault("sqlite:data/interlock.db")
    .describe(
      "Where sessions and their events are stored: `sqlite:<file>`, `sqlite::memory:` to lose them with the process, or `postgres://…`.",
    ),
  INTERLOCK_LOST_COMMITS: z.enum(LOST_COMMITS).optional().meta({
    unset: LOST_COMMITS[0],
    description:
      "What nodes do when PostgreSQL lacks commits that they acknowledged, as after a promoted standby: `stop` answering, or `new-epoch`: give the store a new epoch, and start again by themselves.",
  }),
  INTERLOCK_BUS: bus
    .prefault("memory")
    .describe(
      "How messages travel between nodes: `memory`, inside one process, or `redis://…`. Topics are spread over several servers, separated by commas.",
    ),
  INTERLOCK_NAME: z
    .string()
    .regex(/^[\x21-\x7e]{1,48}$/, "must be 1 to 48 visible characters of ASCII")
    .optional()
    .meta({
      unset: "host:pid",
      description:
        "The node's name in `/nodes`, metrics, log lines, and the database's list of connections; by default its machine and its process.",
    }),
  INTERLOCK_ROLES: roles
    .prefault(NODE_ROLES.join(","))
    .describe("What this node does: some of `gateway`, `orchestrator` and `worker`, separated by commas."),
  INTERLOCK_PARTITIONS: wholeNumber(1, FLOOR_HASHES)
    .prefault(String(FLOOR_HASHES))
    .describe(
      "The number of partitions that floors are divided into, to spread them over orchestrators; the same on all nodes.",
    ),
  INTERLOCK_LEASE: duration({ min: "500ms", max: "1m" })
    .prefault("3s")
    .describe("How long a silent orchestrator keeps its floors."),
  INTERLOCK_AUTH: auth
    .prefault("none")
    .describe(
      "How callers authenticate: `none`, which is allowed on loopback only; `jwt:<URL>` or `jwt:<file>`, tokens signed with a key of a published set (JWKS) or with the secret in a file; `keys:<file>`, keys whose hashes are in a file.",
    ),
  INTERLOCK_ISSUER: claim
    .optional()
    .meta({ unset: "any issuer that has the key", description: "The required issuer of a token (`iss`)." }),
  INTERLOCK_AUDIENCE: claim
    .optional()
    .meta({ unset: "any", description: "The required audience of a token: its `aud`, or one of them." }),
  INTERLOCK_RATE_LIMITS: rateLimits.optional().meta({
    unset: "off without authentication",
    description: `The maximum number of requests per time window: of one owner, from one address, and from one address that fail authentication. \`off\` removes one limit, or all. With authentication \`${USUAL_RATE_LIMITS_TEXT}\`.`,
  }),
  INTERLOCK_PROXIES: proxies.optional().meta({
    unset: "none",
    description: "Addresses or networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` the node trusts.",
  }),
  INTERLOCK_ADDRESS_CONNECTIONS: wholeNumber(1, 1_000_000)
    .prefault("2048")
    .describe(
      "The maximum number of connections of one network address, including event streams. The proxies of `INTERLOCK_PROXIES` have no such limit.",
    ),
  INTERLOCK_ORIGINS: origins.optional().meta({
    unset: "none",
    description:
      "Origins whose pages may call from a browser, separated by commas; `null` for pages opened from a file, and for every sandboxed frame.",
  }),
  INTERLOCK_HOSTS: hosts
    .optional()
    .meta({ unset: "the address", description: "Further names this node answers to, separated by commas." }),
  INTERLOCK_MAX_BODY: size({ min: "1KiB", max: "64MiB" })
    .prefault("10MiB")
    .describe(
      "The largest request; the default holds a message with all of its images. A larger one is answered with 413.",
    ),
  INTERLOCK_COMMAND_DEADLINE: duration({ min: "10ms", max: "1m" })
    .prefault("5s")
    .describe("The time within which a command is answered, at worst with `unavailable`."),
  INTERLOCK_DRAIN: duration({ max: "10m" })
    .prefault("5s")
    .describe("The time that a stopping node has to end its streams and runs."),
  INTERLOCK_INTERACTION_TIMEOUT: duration({ min: "10ms", max: "30d" })
    .prefault("5m")
    .describe("How long an agent's question waits for its answer."),
  INTERLOCK_RETENTION: duration({ min: "1s", max: "36500d" })
    .optional()
    .meta({ unset: "keep everything", description: "How long events of archived sessions are kept." }),
  INTERLOCK_MAX_HELD: wholeNumber(0, 100_000)
    .prefault("256")
    .describe(
      "The maximum number of paused runs that a worker keeps open. Further ones end, and start again when they are resumed.",
    ),
  INTERLOCK_HOLD_TIMEOUT: duration({ max: "30d" })
    .prefault("5m")
    .describe(
      "How long a worker keeps a paused run open. Then the run ends, and starts again when it is resumed, or fails if that would act twice.",
    ),
  LOG_LEVEL: z
    .enum(LOG_LEVELS)
    .prefault("info")
    .describe(`The lowest level that is logged: ${LOG_LEVELS.map((level) => `\`${level}\``).join(", ")}.`),
});

type Variable = keyof typeof Variables.shape;
const NAMES = Object.keys(Variables.shape) as Variable[];

/** One row of the settings' table, for documentation and `--help`. */
export interface SettingRow {
  name: Variable;
  flag: string;
  default: string;
  meaning: string;
}

/** The table of all settings, in the order of `Variables`. */
export const SETTINGS: readonly SettingRow[] = NAMES.map((name) => {
  const { def } = Variables.shape[name];
  const { unset, description } = Variables.shape[name].meta() ?? {};
  const text = "defaultValue" in def ? def.defaultValue : unset;
  return { name, flag: flagOf(name), default: String(text), meaning: description ?? "" };
});

/** `INTERLOCK_MAX_BODY` → `--max-body`. */
function flagOf(name: Variable): string {
  return `--${name
    .replace(/^INTERLOCK_/, "")
    .toLowerCase()
    .replaceAll("_", "-")}`;
}

/** The settings of a node. Durations in ms, sizes in bytes. */
export type Settings = ReturnType<typeof toSettings>;

function toSettings(values: z.infer<typeof Variables>) {
  return {
    host: values.HOST,
    port: values.PORT,
    configPath: values.INTERLOCK_CONFIG ?? (existsSync(USUAL_CATALOG) ? USUAL_CATALOG : SHIPPED_CATALOG),
    webhooksPath: values.INTERLOCK_WEBHOOKS,
    store: values.INTERLOCK_STORE,
    lostCommits: values.INTERLOCK_LOST_COMMITS ?? LOST_COMMITS[0],
    bus: values.INTERLOCK_BUS,
    name:
      values.INTERLOCK_NAME ??
      `${hostname()
        .replace(/[^\x21-\x7e]/g, "_")
        .slice(0, 40)}:${process.pid}`,
    roles: values.INTERLOCK_ROLES,
    partitions: values.INTERLOCK_PARTITIONS,
    leaseMs: values.INTERLOCK_LEASE,
    auth: values.INTERLOCK_AUTH,
    issuer: values.INTERLOCK_ISSUER,
    audience: values.INTERLOCK_AUDIENCE,
    rateLimits: values.INTERLOCK_RATE_LIMITS ?? (values.INTERLOCK_AUTH === "none" ? {} : USUAL_RATE_LIMITS),
    /** Proxies whose forwarding headers are trusted. */
    proxies: values.INTERLOCK_PROXIES ?? [],
    addressConnections: values.INTERLOCK_ADDRESS_CONNECTIONS,
    /** Allowed origins, in addition to the node's own pages. */
    origins: values.INTERLOCK_ORIGINS ?? [],
    /** Lower case, in addition to the address and the loopback names. */
    hosts: values.INTERLOCK_HOSTS ?? [],
    maxBodyBytes: values.INTERLOCK_MAX_BODY,
    commandDeadlineMs: values.INTERLOCK_COMMAND_DEADLINE,
    drainMs: values.INTERLOCK_DRAIN,
    interactionTimeoutMs: values.INTERLOCK_INTERACTION_TIMEOUT,
    /** Undefined: events are never deleted. */
    retentionMs: values.INTERLOCK_RETENTION,
    maxHeld: values.INTERLOCK_MAX_HELD,
    holdTimeoutMs: values.INTERLOCK_HOLD_TIMEOUT,
    logLevel: values.LOG_LEVEL,
  };
}

export interface SettingFault {
  /** The variable, the flag, or both if a flag set the variable. */
  name: string;
  /** Continues a sentence that begins with the name. */
  message: string;
}

export type SettingsReading = { ok: true; settings: Settings } | { ok: false; faults: SettingFault[] };

/**
 * Read the settings of a node, with the files of `INTERLOCK_STORE_FILE` and `INTERLOCK_BUS_FILE`. Returns them, or all
 * faults at once. A flag overrides its variable, and an empty variable counts as unset. An unknown setting is a fault,
 * because a misspelt setting would silently have no effect.
 *
 * @param flags the arguments after `serve`
 */
export function readSettings(
  variables: Readonly<Record<string, string | undefined>>,
  flags: readonly string[] = [],
): SettingsReading {
  const env = withSecretFiles(variables);
  const byFlag = readFlags(
    flags,
    SETTINGS.map(({ flag }) => flag),
  );
  const faults: SettingFault[] = [...byFlag.faults];
  const texts: Partial<Record<Variable, string>> = {};
  const label = (name: Variable) => (byFlag.values.has(flagOf(name)) ? `${flagOf(name)} (${name})` : name);
  for (const name of NAMES) {
    const text = byFlag.values.get(flagOf(name)) ?? (ownValue(env, name) || env[name]);
    if (text) texts[name] = text;
    else if (WITH_FILE.includes(name) && env[`${name}_FILE`])
      faults.push({
        name: `${name}_FILE`,
        message: "names a file that cannot be read, is empty, or has more than 64 KiB",
      });
  }
  faults.push(...findUnknown(env));
  const values = Variables.safeParse(texts, { error: explain });
  for (const { path, message } of values.success ? [] : explainIssues(values.error.issues)) {
    faults.push({ name: label(path[0] as Variable), message });
  }
  // Checked outside the schema, so that it is reported together with other faults.
  const message = whyOpen(texts);
  if (message !== undefined) faults.push({ name: label("HOST"), message });
  if (values.success) faults.push(...findMisfits(values.data, label), ...findIdle(values.data, label));
  return values.success && faults.length === 0
    ? { ok: true, settings: toSettings(values.data) }
    : { ok: false, faults };
}

const PREFIX = "INTERLOCK_";

function findUnknown(env: Readonly<Record<string, string | undefined>>): SettingFault[] {
  const isUnknown = (name: string) => name.startsWith(PREFIX) && !KNOWN.has(name) && !isFromElsewhere(name);
  const names = Object.keys(env).filter(isUnknown).sort();
  return names.map((name) => ({ name, message: `is not a setting of this version${suggestVariable(name)}` }));
}

/** The fault of a node that other machines could use without authentication. */
function whyOpen({ HOST, INTERLOCK_AUTH = "none" }: Partial<Record<Variable, string>>): string | undefined {
  const address = Variables.shape.HOST.safeParse(HOST);
  if (!address.success || INTERLOCK_AUTH !== "none" || isLoopback(address.data)) return undefined;
  return `must be loopback while INTERLOCK_AUTH is none: all clients that can reach ${address.data} would be admitted`;
}

/**
 * The prefixed form of a name, as `INTERLOCK_PORT` for `PORT`. It takes precedence, because only this program uses it.
 */
function ownValue(env: Readonly<Record<string, string | undefined>>, name: Variable): string | undefined {
  if (name.startsWith(PREFIX)) return undefined;
  const text = env[`${PREFIX}${name}`];
  return text !== undefined && ADDRESS_OF_SERVICE.test(text) ? undefined : text;
}

/** Compare without the prefix, which would make any two names look similar. */
function suggestVariable(name: string): string {
  const meant = nearest(
    name.slice(PREFIX.length),
    NAMES.map((known) => known.replace(PREFIX, "")),
  );
  return meant === undefined ? "" : `; did you mean ${PREFIX}${meant}?`;
}

/** Their addresses have passwords, which a file may hold. */
const WITH_FILE: readonly Variable[] = ["INTERLOCK_STORE", "INTERLOCK_BUS"];

/** The known variables. The tokens are not settings of a node: `drive` and `inspect` read them. */
const KNOWN: ReadonlySet<string> = new Set([
  ...NAMES,
  ...NAMES.filter((name) => !name.startsWith(PREFIX)).map((name) => `${PREFIX}${name}`),
  ...WITH_FILE.map((name) => `${name}_FILE`),
  `${PREFIX}TOKEN`,
  `${PREFIX}INSPECT_TOKEN`,
  `${PREFIX}TOKEN_FILE`,
]);
/** The form of the value that Kubernetes gives `INTERLOCK_PORT`. */
const ADDRESS_OF_SERVICE = /^(tcp|udp|sctp):\/\//;

/** Find settings that are valid each but contradict each other. */
function findMisfits(values: z.infer<typeof Variables>, label: (name: Variable) => string): SettingFault[] {
  const { INTERLOCK_STORE: store, INTERLOCK_BUS: bus, INTERLOCK_ROLES: roles } = values;
  if (store.kind === "sqlite" && bus.kind === "redis") {
    const message =
      "cannot be Redis while the store is SQLite: its file has one owner; several nodes share postgres://…";
    return [{ name: label("INTERLOCK_BUS"), message }];
  }
  if (bus.kind === "memory" && roles.length < NODE_ROLES.length) {
    const others =
      store.kind === "sqlite" ? "INTERLOCK_STORE=postgres://… and INTERLOCK_BUS=redis://…" : "INTERLOCK_BUS=redis://…";
    const message = `leaves work to other nodes, which this one could not reach: set ${others}, or use all of ${NODE_ROLES.join(",")}`;
    return [{ name: label("INTERLOCK_ROLES"), message }];
  }
  return [];
}

/** Find settings that would have no effect beside the others. */
function findIdle(values: z.infer<typeof Variables>, label: (name: Variable) => string): SettingFault[] {
  const { INTERLOCK_AUTH: auth, INTERLOCK_STORE: store } = values;
  const hasTokens = auth !== "none" && auth.kind !== "keys";
  const needs: [name: Variable, isMet: boolean, what: string][] = [
    ["INTERLOCK_ISSUER", hasTokens, "INTERLOCK_AUTH=jwt:…"],
    ["INTERLOCK_AUDIENCE", hasTokens, "INTERLOCK_AUTH=jwt:…"],
    ["INTERLOCK_RATE_LIMITS", auth !== "none", "INTERLOCK_AUTH=jwt:… or keys:…"],
    ["INTERLOCK_LOST_COMMITS", store.kind === "postgres", "INTERLOCK_STORE=postgres://…"],
  ];
  return needs
    .filter(([name, isMet]) => values[name] !== undefined && !isMet)
    .map(([name, , what]) => ({ name: label(name), message: `has no effect without ${what}` }));
}

/** The variables that Kubernetes sets in every container of a namespace with a service named `interlock…`. */
const OF_KUBERNETES = /^INTERLOCK(_\w+)?_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$/;

/**
 * Whether another program sets this variable. Programs started by agents get `INTERLOCK_RUN`, and one may be a node.
 */
const isFromElsewhere = (name: string): boolean => name === "INTERLOCK_RUN" || OF_KUBERNETES.test(name);
