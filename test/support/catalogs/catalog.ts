import { createHash } from "node:crypto";
import { type Catalog, CatalogFile, toCatalog } from "../../../src/config/catalog/catalog.ts";

type File = Record<string, unknown>;

/** A catalogue from the keys of its file. */
export function makeCatalog(agents: File[], rest: File = {}): Catalog {
  const hash = createHash("sha256")
    .update(JSON.stringify([agents, rest]))
    .digest("hex");
  return toCatalog(CatalogFile.parse({ agents, ...rest }), hash);
}

/** The text of a catalogue's file. */
export function readCatalog(text: string): Catalog {
  const { agents, ...rest } = JSON.parse(text) as { agents: File[] } & File;
  return makeCatalog(agents, rest);
}

/** The agents of the rules' examples: music 20, weather 30, phone 90, and navigation 80, which is not interruptible. */
export const EXAMPLE_AGENTS: File[] = [
  { name: "music", priority: 20 },
  { name: "weather", priority: 30 },
  { name: "phone", priority: 90, interruptible: false },
  { name: "navigation", priority: 80, interruptible: false },
  { name: "chat", priority: 10 },
  { name: "planner", priority: 60 },
  { name: "vehicle", priority: 50 },
];
