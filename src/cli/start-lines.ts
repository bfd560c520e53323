import { relative, resolve } from "node:path";
import { type Settings, SHIPPED_CATALOG } from "../config/settings.ts";

/**
 * The lines that a node prints once it listens: its URL, catalogue, store, callers, roles and name. No secrets.
 * @param isNewStore whether the store has had no session
 */
export function startLines(url: string, settings: Settings, isNewStore: boolean): string[] {
  const { configPath, store, auth, host, name, roles } = settings;
  const isShipped = configPath === SHIPPED_CATALOG;
  const facts = [
    ["catalogue", isShipped ? `${configPath} (shipped; there is no config/agents_config.yaml here)` : configPath],
    ["store", nameOf(store, isNewStore)],
    ["callers", auth === "none" ? `all clients that can reach ${host}: authentication is off` : callersOf(auth)],
    ["roles", roles.join(", ")],
    ["node", name],
  ];
  return [`Interlock is listening on ${url}`, ...facts.map(([name, text]) => `  ${name!.padEnd(9)}  ${text}`)];
}

function nameOf(store: Settings["store"], isNew: boolean): string {
  if (store.kind === "sqlite" && store.file === ":memory:") return "in memory: nothing is kept";
  const name = store.kind === "sqlite" ? fileName(store.file) : databaseName(store.url);
  return isNew ? `${name} (new: it has no sessions)` : name;
}

function databaseName(url: string): string {
  const { host, pathname } = new URL(url);
  return `PostgreSQL at ${host}${pathname}`;
}

/** Relative to the folder in which the node was started, if it is in there. */
function fileName(file: string): string {
  const path = relative("", file);
  return path === "" || path.startsWith("..") ? resolve(file) : path;
}

function callersOf(auth: Exclude<Settings["auth"], "none">): string {
  return auth.kind === "keys" ? `clients with a key of ${auth.file}` : "clients with a token that its issuer signed";
}
