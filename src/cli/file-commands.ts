import { readSettings } from "../config/settings.ts";
import type { CommandLine } from "./command-line.ts";
import { complain, counted, printLines } from "./printed-lines.ts";

const STORE_NOTE = "Without --store it is the store of INTERLOCK_STORE, or sqlite:data/interlock.db.";

/** Add the commands that write files and read them. */
export function addFileCommands({ add, end }: CommandLine): void {
  add("init", "Write a commented catalogue and an example of the settings into this folder. Overwrites nothing.")
    .option("--small", "a catalogue of three agents, to begin with")
    .action(async ({ small }: { small?: true }) =>
      end(await (await import("./new-files.ts")).init(process.stdout, small)),
    );

  const keys = add("keys", "Make keys for INTERLOCK_AUTH=keys:<file>.");
  keys
    .command("new")
    .description("Make a key: the key is printed on stdout, once, and its entry for the file on stderr.")
    .showHelpAfterError("See interlock keys new --help")
    .argument("<owner>", "whose key it is")
    .option("--operator", "an operator's key")
    .option("--file <file>", "add the entry to this file")
    .action(async (owner: string, options: { operator?: true; file?: string }) =>
      end(await (await import("./new-files.ts")).newKey(owner, options, process.stdout, process.stderr)),
    );

  /** Run a command on the file of a SQLite store. */
  const onFile = async (work: (file: string) => Promise<string>, store?: string) => {
    const reading = readSettings({
      INTERLOCK_STORE: store ?? process.env["INTERLOCK_STORE"],
      INTERLOCK_STORE_FILE: process.env["INTERLOCK_STORE_FILE"],
    });
    try {
      if (!reading.ok) throw new Error(`the store ${reading.faults[0]!.message}`);
      const { store: chosen } = reading.settings;
      if (chosen.kind === "postgres")
        throw new Error("this is for SQLite: docs/operate/operations.md says how to copy PostgreSQL");
      if (chosen.file === ":memory:") throw new Error("a store in memory has no file");
      printLines(process.stdout, [await work(chosen.file)]);
    } catch (error) {
      complain(process.stderr, (error as Error).message);
      end(1);
    }
  };

  add("backup", "Copy a SQLite store to a new file, also while a node uses it.", [STORE_NOTE])
    .argument("<file>", "the new file")
    .option("--store <store>", "the store, as sqlite:<file>")
    .action(async (to: string, { store }: { store?: string }) => {
      const { backUp } = await import("../store/sqlite/file-copies.ts");
      await onFile(async (file) => `${to} has ${counted(await backUp(file, to), "session")} of ${file}`, store);
    });

  add("restore", "Put a backup in the place of a SQLite store that no node uses, and give it a new epoch.", [
    STORE_NOTE,
  ])
    .argument("<file>", "the backup")
    .option("--store <store>", "the store, as sqlite:<file>")
    .action(async (from: string, { store }: { store?: string }) => {
      const { restore } = await import("../store/sqlite/file-copies.ts");
      await onFile(async (file) => {
        const { kept, sessions } = await restore(from, file);
        return `${file} has ${counted(sessions, "session")} of ${from}${kept === undefined ? "" : `; what it replaced is ${kept}`}`;
      }, store);
    });
}
