import { createHash, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setImmediate } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { catalogSchema } from "../config/catalog/catalog-schema.ts";
import { readKeys } from "../config/keys-file.ts";
import { SETTINGS, SHIPPED_CATALOG } from "../config/settings.ts";
import { idText } from "../shared/id-text.ts";
import { complain, type Output, printLines } from "./printed-lines.ts";
import { wrapToWidth } from "./text-width.ts";

const CATALOG = "config/agents_config.yaml";
const SCHEMA = "config/catalogue.schema.json";
const ENV = ".env.example";
const KEY_BYTES = 32;
const SECRET_MODE = 0o600;

const SMALL_CATALOG = new URL("examples/small.yaml", pathToFileURL(SHIPPED_CATALOG));

/**
 * `interlock init`: write a commented catalogue, its JSON Schema and an example of the settings into the working
 * directory. Writes nothing if one of the files exists.
 * @param isSmall whether the catalogue has three agents, in place of the shipped one with all its comments
 * @returns the exit code: 0, or 1 if a file exists
 */
export async function init(out: Output, isSmall = false): Promise<number> {
  const existing = [CATALOG, SCHEMA, ENV].filter((path) => existsSync(path));
  if (existing.length > 0) {
    printLines(out, [`Nothing was written, because this exists: ${existing.join(", ")}`]);
    return 1;
  }
  const shipped = await readFile(isSmall ? SMALL_CATALOG : SHIPPED_CATALOG, "utf8");
  await mkdir(dirname(CATALOG), { recursive: true });
  const files = [
    [CATALOG, shipped.replace(/^(# yaml-language-server: \$schema=).*/, "$1./catalogue.schema.json")],
    [SCHEMA, `${JSON.stringify(catalogSchema(), undefined, 2)}\n`],
    [ENV, envExample()],
  ] as const;
  for (const [path, text] of files) await writeFile(path, text, { flag: "wx" });
  printLines(out, [
    `Written: ${files.map(([path]) => path).join(", ")}`,
    "Next: interlock check, then interlock serve",
  ]);
  return 0;
}

/** All settings as comments, with their defaults. */
function envExample(): string {
  const head = [
    "# The settings of a node, with their defaults. Copy this file to .env, uncomment what you change, and pass it on:",
    "#   set -a; . ./.env; set +a; interlock serve",
    "# or EnvironmentFile= of systemd, or docker run --env-file .env",
  ];
  const rows = SETTINGS.map(({ name, default: standard, meaning }) => {
    const lines = wrapToWidth(meaning.replaceAll("`", ""), 98).map((line) => `# ${line}`);
    const value = /^\S+$/.test(standard) && !["none", "any"].includes(standard) ? standard : "";
    const unset = value === "" && standard !== "" ? [`# Unset: ${standard}.`] : [];
    return [...lines, ...unset, `# ${name}=${value}`].join("\n");
  });
  return `${[head.join("\n"), ...rows].join("\n\n")}\n`;
}

/**
 * `interlock keys new`: make a key. Prints the key on `out`, once, and on `notes` its entry for the file of keys, or
 * with a file adds the entry to it.
 * @returns the exit code: 0, or 1 if no file may have the entry
 */
export async function newKey(
  owner: string,
  { operator = false, file }: { operator?: boolean | undefined; file?: string | undefined },
  out: Output,
  notes: Output,
): Promise<number> {
  const key = idText(randomBytes(KEY_BYTES).toString("base64url"));
  const sha256 = createHash("sha256").update(key).digest("hex");
  const lines = [
    `  - owner: ${JSON.stringify(owner)}`,
    `    sha256: ${sha256}`,
    ...(operator ? ["    operator: true"] : []),
  ];
  const entry = `${lines.join("\n")}\n`;
  const before = file !== undefined && existsSync(file) ? await readFile(file, "utf8") : "";
  const added = `${before === "" ? "keys:\n" : before.endsWith("\n") ? "" : "\n"}${entry}`;
  const reading = readKeys(before + added);
  if (!reading.ok) {
    const { line, message } = reading.faults[0]!;
    const why =
      file === undefined
        ? `no key is made: the owner ${message}`
        : `${file} stays as it is: with the new entry, line ${line} ${message}`;
    complain(notes, why);
    return 1;
  }
  printLines(out, [key]);
  // If stdout cannot be written, the process ends here: the file then has no entry whose key nobody has seen.
  await setImmediate();
  if (file !== undefined) await appendFile(file, added, { mode: SECRET_MODE });
  printLines(
    notes,
    file === undefined
      ? ["Add this entry to the file of INTERLOCK_AUTH=keys:<file>, under keys:, and restart the nodes:", ...lines]
      : [`Added to ${file}. Restart the nodes, which read it at the start.`],
  );
  return 0;
}
