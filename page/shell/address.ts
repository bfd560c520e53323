import { useSyncExternalStore } from "react";
import { Watchers } from "../../src/client/watchers.ts";
import { decode } from "../parts/floor-name.ts";

/**
 * The page's location: `#/name/rest?query`. Paths of the URL itself belong to the API. The address contains the whole
 * view, so that it can be shared.
 */
export interface Address {
  /** The view's name; empty for the start page. */
  view: string;
  /** The rest of the path, decoded. */
  rest: readonly string[];
  query: URLSearchParams;
  /** As the browser has it. */
  hash: string;
}

export function parseAddress(hash: string): Address {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view = "", ...rest] = path.split("/").map(decode);
  return { view, rest, query: new URLSearchParams(search), hash };
}

type Query = Readonly<Record<string, string | undefined>>;

/** The `href` of a view. Parameters without a value are left out. */
export const addressOf = (view: string, rest: readonly string[] = [], query: Query = {}): string =>
  pathOf(view, rest) + searchOf(query);

export const pathOf = (view: string, rest: readonly string[] = []): string =>
  `#/${[view, ...rest].map(encodeURIComponent).join("/")}`;

export function searchOf(query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, value);
  return search.size > 0 ? `?${search}` : "";
}

export function useAddress(): Address {
  const hash = useSyncExternalStore(watchHash, () => location.hash);
  return parseAddress(hash);
}

const watchers = new Watchers();

/** Replace the address without an entry in the browser's history; the browser sends no event for that. */
export function replaceAddress(address: string): void {
  history.replaceState(null, "", address);
  watchers.notify();
}

function watchHash(watcher: () => void): () => void {
  const leave = watchers.subscribe(watcher);
  addEventListener("hashchange", watcher);
  return () => {
    leave();
    removeEventListener("hashchange", watcher);
  };
}
