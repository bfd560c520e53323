import { Argument, Command, InvalidArgumentError, Option } from "commander";
import type { Client } from "../client/client.ts";
import { withSecretFiles } from "../config/secret-files.ts";
import { readSettings, SETTINGS } from "../config/settings.ts";
import { FLOOR_FORMS, FloorId } from "../protocol/ids.ts";
import { VERSION } from "../version.ts";
import type { MatrixFormat } from "./check/matrix.ts";
import type { Language } from "./drive-stage.ts";
import type { ChartFormat } from "./machines.ts";
import type { SessionsQuery } from "./reports.ts";

/** The exit code for an invalid command line. */
export const MISUSED = 2;
const NO_READER = "the reader has left";
const TOKEN_NOTE = "INTERLOCK_TOKEN: the token or key to present, for a node that requires one.";
const STORE_NOTE = "Without --store it is the store of INTERLOCK_STORE, or sqlite:data/interlock.db.";
const LOCAL_NODE = "http://127.0.0.1:3000";

/** What happens when stdout cannot be written. By default the process ends, quietly if the reader has left (`… | head`). */
export interface Stdout {
  onError: (error: NodeJS.ErrnoException) => void;
}

/**
 * The command line of `interlock`. Each command loads its own code when it runs, so that help, completion and the version
 * need no server. An action sets the exit code of the process.
 */
export function createProgram(stdout: Stdout): Command {
  const program = new Command("interlock")
    .description("Decides which agent session has the floor.")
    .version(VERSION, "-v, --version")
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, "interlock: ")) })
    .exitOverride();
  /** Add a command. `run` returns the exit code, or undefined if the command ends the process itself. */
  const add = (name: string, summary: string, notes: readonly string[] = []) => {
    const command = program.command(name).description(summary).showHelpAfterError(`See interlock ${name} --help`);
    return notes.length > 0 ? command.addHelpText("after", `\n${notes.join("\n")}`) : command;
  };
  const end = (code: number | undefined) => {
    if (code !== undefined) process.exitCode = code;
  };

  const serve = add("serve", "Run a node until a signal stops it (SIGTERM, SIGINT, SIGHUP).", [
    "Every setting is a flag and an environment variable. A flag overrides its variable.",
    "Exit code: 0 after a signal, or 1 if the node cannot start or stop as it should.",
  ])
    // The settings are read together, so that all their faults are reported at once.
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      // A node goes on without a reader, and counts the lines that it could not write.
      stdout.onError = () => undefined;
      end(await (await import("./serve.ts")).serve(process.argv.slice(3)));
    });
  for (const { name, flag, default: standard, meaning } of SETTINGS) {
    serve.option(`${flag} [value]`, `(${name}) ${meaning.replaceAll("`", "")} Default: ${standard}.`);
  }

  add("check", "Validate a catalogue of agents, and warn of effects its author may not expect.", [
    "Exit code: 0, with warnings or without; 1 with its faults; 2 if it cannot be read.",
  ])
    .argument("[file]", "the catalogue; default: the one that a node would use")
    .option("--matrix", "print the decision for each pair of challenger and holder, in place of warnings")
    .addOption(
      new Option("--format <format>", "how the matrix is printed: text for 80 columns, json for programs")
        .choices(["text", "markdown", "json"])
        .implies({ matrix: true }),
    )
    .action(async (file: string | undefined, { matrix, format = "text" }: { matrix?: true; format?: MatrixFormat }) => {
      const { checkCatalog } = await import("./check/check.ts");
      const env = withSecretFiles(process.env);
      end(await checkCatalog(file ?? usualCatalogPath(), process.stdout, env, matrix && format));
    });

  add("schema", "Print the JSON Schema of a catalogue, with which editors complete and check the file.", [
    "The first line of a catalogue names it: # yaml-language-server: $schema=<path>",
  ]).action(async () => {
    const { catalogSchema } = await import("../config/catalog/catalog-schema.ts");
    process.stdout.write(`${JSON.stringify(catalogSchema(), undefined, 2)}\n`);
  });

  add("drive", "Play four scenes of a drive against a running node, and print which agent had the floor, and why.", [
    "The node has to use the shipped catalogue; with config/car.yaml it plays a scene in which several agents are heard together.",
    "INTERLOCK_TOKEN: an operator's token or key, for a node that requires one.",
    "Exit code: 0, or 1 if a scene did not follow the rules or the node refuses it.",
  ])
    .addArgument(nodeUrl())
    .addOption(
      new Option("--lang <language>", "the language that is spoken; default: that of the terminal").choices([
        "en",
        "zh",
      ]),
    )
    .action(async (url: string, { lang }: { lang?: Language }) => {
      const { drive } = await import("./drive.ts");
      const stopping = new AbortController();
      process.once("SIGINT", () => stopping.abort());
      // Abort first, which ends the drive's sessions on the server.
      const { onError } = stdout;
      stdout.onError = (error) => (error.code === "EPIPE" ? stopping.abort(NO_READER) : onError(error));
      const code = await drive(url, process.stdout, { signal: stopping.signal, language: lang });
      end(stopping.signal.reason === NO_READER ? 0 : code);
    });

  add("machines", "Print the statecharts of a floor and of a session, read off the machines themselves.")
    .addOption(
      new Option("--format <format>", "mermaid: diagrams for Markdown; json: states, events and guards")
        .choices(["mermaid", "json"])
        .default("mermaid"),
    )
    .action(async ({ format }: { format: ChartFormat }) => {
      const { machinesText } = await import("./machines.ts");
      process.stdout.write(machinesText(format));
    });

  add(
    "inspect",
    "Show what happens on a running node to consumers of @statelyai/inspect, such as Stately's inspector.",
    [
      "Readers connect by WebSocket to the printed address. It is on loopback only, and contains a token.",
      "INTERLOCK_TOKEN: a token or key, for a node that requires one. It sees what its owner may see.",
      "INTERLOCK_INSPECT_TOKEN: the token that readers must present. Default: a random one for each start.",
      "Exit code: 0 after a signal, or 1 if the port is in use or the node refuses.",
    ],
  )
    .addArgument(nodeUrl())
    .option(
      "--floor <id...>",
      `floors to show, as ${FLOOR_FORMS}; default: all that are in use, now and later`,
      floorIds,
    )
    .option("--port <port>", "the port for readers; 0 picks a free one", numberFrom(0, 65_535), 8081)
    .action(async (url: string, { floor = [], port }: { floor?: string[]; port: number }) => {
      const { inspect } = await import("./inspect.ts");
      const stopping = new AbortController();
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort());
      const { INTERLOCK_TOKEN: nodeToken, INTERLOCK_INSPECT_TOKEN: token } = process.env;
      const code = await inspect(
        url,
        { floorIds: floor, port, signal: stopping.signal, nodeToken, token },
        (address) => process.stdout.write(`Inspectors connect to ${address}\n`),
        (why) => process.stderr.write(`interlock: ${why}\n`),
      );
      end(code);
    });

  add("players", "Let the media players of this machine take part: mpv, VLC, Spotify, Firefox and others, unchanged.", [
    "It needs the package @jellybrick/dbus-next and the program pactl, and a session bus.",
    "INTERLOCK_TOKEN: a token or key, for a node that requires one.",
    "Exit code: 0 after a signal, or 1 if the file has faults, or the bus or the sound server cannot be reached.",
  ])
    .argument("[file]", "which player has which agent; default: players.yaml, here or in ~/.config/interlock")
    .addOption(urlOption())
    .option("--user <name>", "the user on whose floor the players compete; default: the user of this machine")
    .action(async (file: string | undefined, { url, user }: { url: string; user?: string }) => {
      const { players } = await import("./players/run-players.ts");
      const stopping = new AbortController();
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => stopping.abort());
      // Levels are put back before the process ends.
      const { onError } = stdout;
      stdout.onError = (error) => (error.code === "EPIPE" ? stopping.abort() : onError(error));
      const { stdout: out, stderr: err } = process;
      end(await players(file, { url, userId: user, out, err, signal: stopping.signal }));
    });

  /** A command that prints what a node says. */
  const report = (name: string, summary: string) =>
    add(name, summary, [TOKEN_NOTE]).addOption(urlOption()).option("--json", "print the facts as JSON");
  const print = async (
    { url, json }: { url: string; json?: true },
    make: (client: Client) => Promise<import("./reports.ts").Report>,
  ) => {
    const { clientOf, explainFailure } = await import("./node-client.ts");
    try {
      const { facts, lines } = await make(clientOf(url, process.env));
      process.stdout.write(json ? `${JSON.stringify(facts, undefined, 2)}\n` : `${lines.join("\n")}\n`);
    } catch (error) {
      process.stderr.write(`interlock: ${explainFailure(error, url)}\n`);
      end(1);
    }
  };
  type Asked = { url: string; json?: true };

  report("status", "Show what every node does, what waits, and which roles no node has; for operators.").action(
    async (asked: Asked) => {
      const { reportStatus } = await import("./reports.ts");
      await print(asked, (client) => reportStatus(client, Date.now()));
    },
  );

  report("agents", "List the agents that sessions may have.").action(async (asked: Asked) => {
    const { reportAgents } = await import("./reports.ts");
    await print(asked, reportAgents);
  });

  report("sessions", "List sessions, those with the newest activity first.")
    .option("--user <name>", "only this user's")
    .option("--agent <name>", "only this agent's")
    .option("--archived", "archived ones too")
    .option("--limit <number>", "the most sessions", numberFrom(1, 10_000), 50)
    .action(async (asked: Asked & SessionsQuery) => {
      const { reportSessions } = await import("./reports.ts");
      await print(asked, (client) => reportSessions(client, asked, Date.now()));
    });

  add(
    "init",
    "Write a commented catalogue and an example of the settings into this folder. Overwrites nothing.",
  ).action(async () => end(await (await import("./new-files.ts")).init(process.stdout)));

  const keys = add("keys", "Make keys for INTERLOCK_AUTH=keys:<file>.");
  keys
    .command("new")
    .description("Make a key: the key is printed on stdout, once, and its entry for the file on stderr.")
    .argument("<owner>", "whose key it is")
    .option("--operator", "an operator's key")
    .option("--file <file>", "add the entry to this file")
    .action(async (owner: string, options: { operator?: true; file?: string }) =>
      end(await (await import("./new-files.ts")).newKey(owner, options, process.stdout, process.stderr)),
    );

  /** Run a command on the file of a SQLite store. */
  const onFile = async (work: (file: string) => Promise<string>, store?: string) => {
    const reading = readSettings(withSecretFiles({ INTERLOCK_STORE: store ?? process.env["INTERLOCK_STORE"] }));
    try {
      if (!reading.ok) throw new Error(`the store ${reading.faults[0]!.message}`);
      const { store: chosen } = reading.settings;
      if (chosen.kind === "postgres")
        throw new Error("this is for SQLite: docs/operations.md says how to copy PostgreSQL");
      if (chosen.file === ":memory:") throw new Error("a store in memory has no file");
      process.stdout.write(`${await work(chosen.file)}\n`);
    } catch (error) {
      process.stderr.write(`interlock: ${(error as Error).message}\n`);
      end(1);
    }
  };

  add("backup", "Copy a SQLite store to a new file, also while a node uses it.", [STORE_NOTE])
    .argument("<file>", "the new file")
    .option("--store <store>", "the store, as sqlite:<file>")
    .action(async (to: string, { store }: { store?: string }) => {
      const { backUp } = await import("../store/sqlite/file-copies.ts");
      await onFile(async (file) => `${to} has ${await backUp(file, to)} sessions of ${file}`, store);
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
        return `${file} has ${sessions} sessions of ${from}${kept === undefined ? "" : `; what it replaced is ${kept}`}`;
      }, store);
    });

  add("forget", "Delete all that a running store has about a user, with its sessions; for operators.", [TOKEN_NOTE])
    .argument("<user>", "the userId of its sessions")
    .addOption(urlOption())
    .option("--export <file>", "first write a copy of it to this new file, as lines of JSON")
    .option("--yes", "do not ask")
    .action(async (user: string, options: { url: string; export?: string; yes?: true }) => {
      const { forget } = await import("./forget.ts");
      end(await forget(user, options, process));
    });
  return program;
}

const urlOption = () => new Option("--url <url>", "the address of the node").default(LOCAL_NODE).argParser(nodeUrlOf);

function numberFrom(min: number, max: number) {
  return (text: string): number => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`It is a number from ${min} to ${max}.`);
  };
}

const nodeUrl = () => new Argument("[url]", "the address of the node").default(LOCAL_NODE).argParser(nodeUrlOf);

function nodeUrlOf(url: string): string {
  if (/^https?:\/\/./.test(url) && URL.canParse(url)) return url;
  throw new InvalidArgumentError(`A URL is like ${LOCAL_NODE}.`);
}

function floorIds(floorId: string, others: string[] = []): string[] {
  if (FloorId.safeParse(floorId).success) return [...others, floorId];
  throw new InvalidArgumentError(`A floor is ${FLOOR_FORMS}.`);
}

function usualCatalogPath(): string {
  const reading = readSettings({ INTERLOCK_CONFIG: process.env["INTERLOCK_CONFIG"] });
  return reading.ok ? reading.settings.configPath : "config/agents_config.yaml";
}
