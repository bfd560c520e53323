import { type Command, Option } from "commander";
import { SETTINGS } from "../config/settings.ts";
import { FLOOR_FORMS } from "../protocol/ids.ts";
import { VERSION } from "../system/version.ts";
import {
  type CommandLine,
  collect,
  floorArgument,
  languageOption,
  NO_READER,
  nodeUrl,
  numberFrom,
  type Stdout,
  someText,
  TOKEN_NOTE,
  untilStopped,
  urlOption,
} from "./command-line.ts";
import { DashedCommand } from "./dashed-command.ts";
import { addFileCommands } from "./file-commands.ts";
import type { Language } from "./language.ts";
import type { ChartFormat } from "./machines.ts";
import { addNodeCommands } from "./node-commands.ts";
import { addPolicyCommands } from "./policy-commands.ts";
import { complain, printableText, printJson, printLines } from "./printed-lines.ts";

/** For a developer at a terminal, and so no setting of a node. */
const TRACE_FLOW = "--trace-flow";

/** A message without the line ends of the argument that it quotes. */
const ownLines = (message: string): string => message.replace(/\n(?!$|\(Did you mean )/g, " ");

/**
 * The command line of `interlock`. Each command loads its own code when it runs, so that help, completion and the
 * version need no server. An action sets the exit code of the process.
 */
export function createProgram(stdout: Stdout): Command {
  const program = new DashedCommand("interlock")
    .description("Decides which agent session has the floor.")
    // After a command `-v…` is an argument, and not the program's version.
    .enablePositionalOptions()
    .version(VERSION, "-v, --version")
    .configureOutput({
      outputError: (text, write) => write(printableText(ownLines(text.replace(/^error: /, "interlock: ")))),
    })
    .exitOverride();
  const add: CommandLine["add"] = (name, summary, notes = []) => {
    const command = program.command(name).description(summary).showHelpAfterError(`See interlock ${name} --help`);
    return notes.length > 0 ? command.addHelpText("after", `\n${notes.join("\n")}`) : command;
  };
  const end: CommandLine["end"] = (code) => {
    if (code !== undefined) process.exitCode = code;
  };

  const serve = add("serve", "Run a node until a signal stops it (SIGTERM, SIGINT, SIGHUP).", [
    "Every setting is a flag and an environment variable. A flag overrides its variable.",
    "Exit code: 0 after a signal, or 1 if the node cannot start or stop as it should.",
  ])
    // The settings are read together, so that all their faults are reported at once.
    .allowUnknownOption()
    .allowExcessArguments()
    .option(TRACE_FLOW, "Print each hop of each command: from its socket to its commit, and back to the readers.")
    .action(async ({ traceFlow }: { traceFlow?: true }) => {
      // A node goes on without a reader, and counts the lines that it could not write.
      stdout.onError = () => undefined;
      if (traceFlow) (await import("./flow-lines.ts")).printFlow();
      const settings = process.argv.slice(3).filter((flag) => flag !== TRACE_FLOW);
      end(await (await import("./serve.ts")).serve(settings));
    });
  for (const { name, flag, default: standard, meaning } of SETTINGS) {
    serve.option(`${flag} [value]`, `(${name}) ${meaning.replaceAll("`", "")} Default: ${standard}.`);
  }

  addPolicyCommands({ add, end });

  add("schema", "Print the JSON Schema of a catalogue, with which editors complete and check the file.", [
    "The first line of a catalogue names it: # yaml-language-server: $schema=<path>",
  ]).action(async () => {
    const { catalogSchema } = await import("../config/catalog/catalog-schema.ts");
    printJson(process.stdout, catalogSchema());
  });

  add("drive", "Play four scenes of a drive against a running node, and print which agent had the floor, and why.", [
    "The node has to use the shipped catalogue; with config/car.yaml it plays a scene in which several agents are heard together.",
    "INTERLOCK_TOKEN: an operator's token or key, for a node that requires one.",
    "Exit code: 0, or 1 if a scene did not follow the rules or the node refuses it.",
  ])
    .addArgument(nodeUrl())
    .addOption(languageOption("the language that is spoken; default: that of the terminal"))
    .action(async (url: string, { lang }: { lang?: Language }) => {
      const { drive } = await import("./drive.ts");
      // It ends the drive's sessions on the server.
      const signal = untilStopped(stdout, "SIGINT");
      const code = await drive(url, process.stdout, { signal, language: lang });
      end(signal.reason === NO_READER ? 0 : code);
    });

  add("machines", "Print the statecharts of a floor and of a session, read off the machines themselves.")
    .addOption(
      new Option("--format <format>", "mermaid: diagrams for Markdown; json: states, events and guards")
        .choices(["mermaid", "json"])
        .default("mermaid"),
    )
    .action(async ({ format }: { format: ChartFormat }) => {
      const { machinesText } = await import("./machines.ts");
      printLines(process.stdout, machinesText(format).trimEnd().split("\n"));
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
      "--floor <id>",
      `a floor to show, as ${FLOOR_FORMS}; may be repeated; default: all that are in use, now and later`,
      (id: string, others?: string[]) => collect(floorArgument(id), others),
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
        (address) => printLines(process.stdout, [`Inspectors connect to ${address}`]),
        (why) => complain(process.stderr, why),
      );
      end(code);
    });

  add("players", "Let the media players of this machine take part: mpv, VLC, Spotify, Firefox and others, unchanged.", [
    "It needs the package @jellybrick/dbus-next and the program pactl, and a session bus.",
    TOKEN_NOTE,
    "Exit code: 0 after a signal, or 1 if the file has faults, or the bus or the sound server cannot be reached.",
  ])
    .argument("[file]", "which player has which agent; default: players.yaml, here or in ~/.config/interlock")
    .addOption(urlOption())
    .option("--user <name>", "the user on whose floor the players compete; default: the user of this machine", someText)
    .action(async (file: string | undefined, { url, user }: { url: string; user?: string }) => {
      const { players } = await import("./players/run-players.ts");
      // Levels are put back before the process ends.
      const signal = untilStopped(stdout, "SIGINT", "SIGTERM", "SIGHUP");
      const { stdout: out, stderr: err } = process;
      end(await players(file, { url, userId: user, out, err, signal }));
    });

  add("mqtt", "Let an MQTT broker take part: signals become flags, devices players, and decisions are published.", [
    "It needs the package mqtt, and a broker. --schema prints the JSON Schema of what is published.",
    TOKEN_NOTE,
    "Exit code: 0 after a signal, or 1 if the file has faults, or another bridge of its name has taken over.",
  ])
    .argument("[file]", "which topic is what", "mqtt.yaml")
    .addOption(urlOption())
    .option("--schema", "print the JSON Schema, and end")
    .action(async (file: string, { url, schema }: { url: string; schema?: true }) => {
      if (schema) return printJson(process.stdout, (await import("./mqtt/published.ts")).mqttSchema());
      const { mqtt } = await import("./mqtt/run-mqtt.ts");
      // Volumes are put back before the process ends.
      const signal = untilStopped(stdout, "SIGINT", "SIGTERM", "SIGHUP");
      const { stdout: out, stderr: err } = process;
      end(await mqtt(file, { url, out, err, signal }));
    });

  const line = { add, end, stdout };
  addNodeCommands(line);
  addFileCommands(line);
  return program;
}
