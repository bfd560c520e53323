import { dirname, resolve } from "node:path";
import { z } from "zod";
import { AgentId, Name, SHORT_NAME, SHORT_NAME_FORM } from "../protocol/ids.ts";
import { NOTICE_TYPES, type NoticeType } from "../protocol/notice.ts";
import { readBounded, whyUnreadable } from "./bounded-file.ts";
import { explain, explainIssues } from "./catalog/explanation.ts";
import { readYaml } from "./catalog/yaml-text.ts";
import { type Fault, faultLine, sortFaults } from "./fault.ts";
import { suggest } from "./nearest.ts";
import { duration } from "./quantities.ts";
import { readApart, SMALL_BYTES, UnfinishedReading } from "./reading-thread.ts";
import { withoutValue } from "./yaml-file.ts";

/** The largest file of webhooks, in bytes. */
const MAX_FILE_BYTES = 262_144;
/** The largest file of secrets, in bytes: two of them have 200. */
const MAX_SECRETS_BYTES = 1_024;
/** The number of hooks: each event is compared with all of them. */
const MAX_HOOKS = 64;
/** One secret, or two while one is replaced by the other. */
const MAX_SECRETS = 2;
/** Bytes of a secret, as Standard Webhooks has them. */
const SECRET_BYTES = { min: 24, max: 64 };
const SECRET_FORM = `must be whsec_ and the base64 of ${SECRET_BYTES.min} to ${SECRET_BYTES.max} random bytes`;
const TYPE_NAMES = Object.keys(NOTICE_TYPES) as NoticeType[];

/** The key of a secret; undefined if it has not the form. */
function keyOf(secret: string): Buffer | undefined {
  const [, base64] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret) ?? [];
  if (base64 === undefined) return undefined;
  const key = Buffer.from(base64, "base64");
  return key.length >= SECRET_BYTES.min && key.length <= SECRET_BYTES.max ? key : undefined;
}

const Secret = z.string().refine((secret) => keyOf(secret) !== undefined, SECRET_FORM);

const Type = z.string().transform((name, context) => {
  if (Object.hasOwn(NOTICE_TYPES, name)) return name as NoticeType;
  const meant = suggest(name, TYPE_NAMES) || `; known: ${TYPE_NAMES.join(", ")}`;
  context.issues.push({ code: "custom", input: name, message: `is not a known type${meant}` });
  return z.NEVER;
});

const Fields = z.strictObject({
  name: z.string().regex(SHORT_NAME, SHORT_NAME_FORM),
  url: z.string().max(2_048),
  /** Signs what is sent; of two, each signs. */
  secret: z.union([Secret, z.array(Secret).min(1).max(MAX_SECRETS)]).optional(),
  /** A file with one secret, or with two on a line each. */
  secret_file: z.string().min(1).max(4_096).optional(),
  types: z.array(Type).min(1).max(TYPE_NAMES.length),
  /** Only sessions of these agents. */
  agents: z.array(AgentId).min(1).max(1_000).optional(),
  /** Only sessions of these users or owners. */
  users: z.array(Name).min(1).max(1_000).optional(),
  private_addresses: z.boolean().default(false),
  timeout: duration({ min: "500ms", max: "1m" }).default(15_000),
});

/** The keys of a webhook, in their order. */
export const WEBHOOK_KEYS = Object.keys(Fields.shape);

const Hook = Fields.superRefine(
  ({ url: text, private_addresses: mayBePrivate, secret, secret_file: file }, context) => {
    const refuse = (key: string, message: string) =>
      context.issues.push({ code: "custom", path: [key], message, input: undefined });
    const url = URL.parse(text);
    if (!url || !/^https?:$/.test(url.protocol)) refuse("url", "must be an address with https, or http");
    else if (url.username !== "" || url.password !== "") refuse("url", "must have no user name and no password");
    else if (url.protocol === "http:" && !mayBePrivate) {
      refuse("url", "must begin with https: plain http is for receivers with private_addresses: true");
    }
    if ((secret === undefined) === (file === undefined)) refuse("name", "needs secret or secret_file, one of them");
  },
);

const WebhooksFile = z.strictObject({ webhooks: z.array(Hook).max(MAX_HOOKS) });

/** Whom to tell of what. */
export interface Webhook {
  readonly name: string;
  readonly url: URL;
  /** The keys that sign, at least one. */
  readonly keys: readonly Buffer[];
  readonly types: ReadonlySet<NoticeType>;
  /** Undefined: of all agents. */
  readonly agents: ReadonlySet<string> | undefined;
  /** Undefined: of all users. */
  readonly users: ReadonlySet<string> | undefined;
  readonly mayBePrivate: boolean;
  readonly timeoutMs: number;
}

/** The hooks of a file, by name. */
export interface Webhooks {
  readonly hooks: ReadonlyMap<string, Webhook>;
  readonly secretFiles: readonly string[];
}

type Refused = { ok: false; faults: readonly string[] };
export type WebhooksReading = { ok: true; webhooks: Webhooks } | Refused;

/** What a file has, with the secrets of the files that it names, as plain data. */
interface Entries {
  ok: true;
  entries: readonly { readonly entry: z.infer<typeof Hook>; readonly secrets: readonly string[] }[];
  secretFiles: readonly string[];
}

/** Read a file of webhooks. Never rejects: `faults` are sentences with line and column, all at once, and no secrets. */
export async function readWebhooksFile(path: string): Promise<WebhooksReading> {
  try {
    const bytes = await readBounded(path, MAX_FILE_BYTES);
    if (bytes.length > MAX_FILE_BYTES) return { ok: false, faults: [`${path}: the file is larger than 256 KiB`] };
    const text = bytes.toString("utf8");
    const read = bytes.length <= SMALL_BYTES ? await readEntries(text, path) : await readEntriesApart(text, path);
    if (!read.ok) return read;
    const hooks = new Map(read.entries.map(({ entry, secrets }) => [entry.name, hookOf(entry, secrets)]));
    return { ok: true, webhooks: { hooks, secretFiles: read.secretFiles } };
  } catch (error) {
    const why = error instanceof UnfinishedReading ? `the file ${error.message}` : whyUnreadable(error);
    return { ok: false, faults: [`${path}: ${why}`] };
  }
}

/** A large file is read anew whenever it is saved, and as long as it has faults, while the node is at work. */
const readEntriesApart = (text: string, path: string): Promise<Entries | Refused> =>
  readApart(new URL("./webhooks-main", import.meta.url), { text, path });

/** Parse the text of a file of webhooks. Paths of secret files are relative to its folder. */
export async function readEntries(text: string, path: string): Promise<Entries | Refused> {
  const yaml = readYaml(text);
  const parsed = WebhooksFile.safeParse(yaml.value, { error: explain });
  const faults = [...yaml.faults];
  const addFault: AddFault = (at, message, on = "value") => {
    const fault = yaml.faultAt(at, on, at.includes("secret") ? withoutValue(message) : message);
    if (fault) faults.push(fault);
  };
  if (!parsed.success) {
    const issues = yaml.value === undefined ? [] : explainIssues(parsed.error.issues);
    for (const { path: at, on, message } of issues) addFault(at, message, on);
    return { ok: false, faults: linesOf(path, faults) };
  }
  const entries = await withSecrets(parsed.data, dirname(path), addFault);
  return faults.length === 0 ? entries : { ok: false, faults: linesOf(path, faults) };
}

type AddFault = (at: readonly PropertyKey[], message: string, on?: "key" | "value") => void;

async function withSecrets(
  { webhooks }: z.infer<typeof WebhooksFile>,
  folder: string,
  addFault: AddFault,
): Promise<Entries> {
  const names = new Set<string>();
  const entries: Entries["entries"][number][] = [];
  const secretFiles: string[] = [];
  for (const [index, entry] of webhooks.entries()) {
    const { name, secret, secret_file: file } = entry;
    if (names.has(name)) addFault(["webhooks", index, "name"], "is there twice");
    names.add(name);
    let secrets = [secret ?? []].flat();
    if (file !== undefined) {
      const secretPath = resolve(folder, file);
      secretFiles.push(secretPath);
      const read = await readSecrets(secretPath);
      if (typeof read === "string") addFault(["webhooks", index, "secret_file"], read);
      else secrets = read;
    }
    entries.push({ entry, secrets });
  }
  return { ok: true, entries, secretFiles };
}

const linesOf = (path: string, faults: readonly Fault[]) => sortFaults(faults).map((fault) => faultLine(path, fault));

function hookOf(entry: z.infer<typeof Hook>, secrets: readonly string[]): Webhook {
  const { name, url, types, agents, users, private_addresses: mayBePrivate, timeout: timeoutMs } = entry;
  return {
    name,
    url: new URL(url),
    keys: secrets.map((secret) => keyOf(secret)!),
    types: new Set(types),
    agents: agents && new Set(agents),
    users: users && new Set(users),
    mayBePrivate,
    timeoutMs,
  };
}

/** The secrets in a file; what is wrong with it otherwise, without its contents. */
async function readSecrets(path: string): Promise<string[] | string> {
  let text: string;
  try {
    text = (await readBounded(path, MAX_SECRETS_BYTES)).toString("utf8");
  } catch (error) {
    return whyUnreadable(error);
  }
  const lines = text.split(/\r?\n/).filter((line) => line !== "");
  if (lines.length === 0 || lines.length > MAX_SECRETS) return `must have one secret, or two on a line each`;
  const isEach = lines.every((line) => keyOf(line) !== undefined);
  return isEach ? lines : `has a line that is no secret: each ${SECRET_FORM}`;
}
