import { suggest } from "../config/nearest.ts";
import { withSecretFiles } from "../config/secret-files.ts";
import { readSettings, SETTINGS } from "../config/settings.ts";
import { FLOOR_FORMS, FloorId } from "../protocol/ids.ts";
import { VERSION } from "../version.ts";
import { helpOf, MISUSED, readFlags, type Verb } from "./verb.ts";

const LOCAL_NODE = "http://127.0.0.1:3000";

/** Each command loads its own code when it runs, so that help and the version need no server. */
const VERBS: readonly Verb[] = [
  {
    name: "serve",
    synopsis: "[--port 3000] [--config FILE] …",
    summary: "Run a node until a signal stops it (SIGTERM, SIGINT, SIGHUP).",
    details: () => [
      "Every setting is a flag and an environment variable. A flag overrides its variable.",
      ...SETTINGS.map(({ name, flag, default: standard, meaning }): [string, string] => [
        `${flag} (${name})`,
        `${meaning.replaceAll("`", "")} Default: ${standard}.`,
      ]),
      "Exit code: 0 after a signal, or 1 if the node cannot start or stop as it should.",
    ],
    run: async (args) => (await import("./serve.ts")).serve(args),
  },
  {
    name: "check",
    synopsis: "[FILE] [--matrix [--format text|markdown|json]]",
    summary: "Validate a catalogue of agents, and warn of effects its author may not expect.",
    details: () => [
      "FILE is by default the file a node would use: INTERLOCK_CONFIG, or config/agents_config.yaml.",
      ["--matrix", "Print the decision for each pair of challenger and holder, in place of warnings."],
      ["--format", "How the matrix is printed: text for 80 columns, the default; markdown; json for programs."],
      "Exit code: 0, with warnings or without; 1 with its faults; 2 if it cannot be read.",
    ],
    run: async (args) => {
      const read = readFlags(args, { matrix: { type: "boolean" }, format: { type: "string" } });
      if ("fault" in read) return misuse("check", read.fault);
      const [file = usualCatalogPath(), more] = read.positionals;
      const { matrix = false, format = "text" } = read.values;
      const { MATRIX_FORMATS } = await import("./check/matrix.ts");
      const shown = MATRIX_FORMATS.find((each) => each === format);
      if (more !== undefined) return misuse("check", `${more} is an extra argument`);
      if (!shown) return misuse("check", "--format is text, markdown or json");
      if (read.values.format !== undefined && !matrix) return misuse("check", "--format needs --matrix");
      endQuietlyWithoutReader(() => process.exit(0));
      const { checkCatalog } = await import("./check/check.ts");
      return await checkCatalog(file, process.stdout, withSecretFiles(process.env), matrix ? shown : undefined);
    },
  },
  {
    name: "drive",
    synopsis: "[URL] [--lang en|zh]",
    summary: "Play four scenes of a drive against a running node, and print which agent had the floor, and why.",
    details: () => [
      `URL is ${LOCAL_NODE} by default. The node has to use the shipped catalogue; with config/car.yaml it plays a scene in which several agents are heard together.`,
      [
        "--lang",
        "The language that is spoken: en or zh. Default: that of the terminal (LC_ALL, LC_MESSAGES, LANG), else en.",
      ],
      ["INTERLOCK_TOKEN", "An operator's token or key, for a node that requires one."],
      "Exit code: 0, or 1 if a scene did not follow the rules or the node refuses it.",
    ],
    run: async (args) => {
      const read = readFlags(args, { lang: { type: "string" } });
      if ("fault" in read) return misuse("drive", read.fault);
      const [url = LOCAL_NODE, more] = read.positionals;
      if (more !== undefined) return misuse("drive", `${more} is an extra argument`);
      if (!isNodeUrl(url)) return misuse("drive", `${url} is not a URL like ${LOCAL_NODE}`);
      const { drive, LANGUAGES } = await import("./drive.ts");
      const { lang } = read.values;
      const language = LANGUAGES.find((each) => each === lang);
      if (lang !== undefined && !language) return misuse("drive", `--lang is ${LANGUAGES.join(" or ")}`);
      const stopping = new AbortController();
      process.once("SIGINT", () => stopping.abort());
      let hasReader = true;
      endQuietlyWithoutReader(() => {
        hasReader = false;
        // Abort first, which ends the drive's sessions on the server.
        stopping.abort();
      });
      const code = await drive(url, process.stdout, { signal: stopping.signal, language });
      return hasReader ? code : 0;
    },
  },
  {
    name: "machines",
    synopsis: "[--format mermaid|json]",
    summary: "Print the statecharts of a floor and of a session, read off the machines themselves.",
    details: () => [
      "mermaid, the default: diagrams for a page of Markdown. json: states, events and guards, for programs.",
    ],
    run: async (args) => {
      const read = readFlags(args, { format: { type: "string", default: "mermaid" } });
      if ("fault" in read) return misuse("machines", read.fault);
      const { CHART_FORMATS, machinesText } = await import("./machines.ts");
      const format = CHART_FORMATS.find((each) => each === read.values.format);
      const [more] = read.positionals;
      if (more !== undefined) return misuse("machines", `${more} is an extra argument`);
      if (!format) return misuse("machines", "--format is mermaid or json");
      return print(machinesText(format));
    },
  },
  {
    name: "inspect",
    synopsis: "[URL] [--floor ID]… [--port 8081]",
    summary: "Show what happens on a running node to consumers of @statelyai/inspect, such as Stately's inspector.",
    details: () => [
      `URL is ${LOCAL_NODE} by default. Without --floor it shows the floors that are in use, now and later.`,
      ["--floor ID", `A floor to show, as ${FLOOR_FORMS}. It may be given several times.`],
      ["--port", "The port for readers, by default 8081; 0 picks a free one."],
      "Readers connect by WebSocket to the printed address. It is on loopback only, and contains a token.",
      ["INTERLOCK_TOKEN", "A token or key, for a node that requires one. It sees what its owner may see."],
      ["INTERLOCK_INSPECT_TOKEN", "The token that readers must present. Default: a random one for each start."],
      "Exit code: 0 after a signal, or 1 if the port is in use or the node refuses.",
    ],
    run: async (args) => {
      const flags = { floor: { type: "string", multiple: true }, port: { type: "string", default: "8081" } } as const;
      const read = readFlags(args, flags);
      if ("fault" in read) return misuse("inspect", read.fault);
      const [url = LOCAL_NODE, more] = read.positionals;
      const port = Number(read.values.port);
      if (more !== undefined) return misuse("inspect", `${more} is an extra argument`);
      if (!isNodeUrl(url)) return misuse("inspect", `${url} is not a URL like ${LOCAL_NODE}`);
      const floorIds = read.values.floor ?? [];
      const strange = floorIds.find((each) => !FloorId.safeParse(each).success);
      if (strange !== undefined) return misuse("inspect", `--floor is ${FLOOR_FORMS}, not ${strange}`);
      if (!/^\d{1,5}$/.test(read.values.port) || port > 65_535) return misuse("inspect", "--port is 0 to 65535");
      const { inspect } = await import("./inspect.ts");
      const stopping = new AbortController();
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort());
      const { INTERLOCK_TOKEN: nodeToken, INTERLOCK_INSPECT_TOKEN: token } = process.env;
      return await inspect(
        url,
        { floorIds, port, signal: stopping.signal, nodeToken, token },
        (address) => print(`Inspectors connect to ${address}\n`),
        (why) => process.stderr.write(`interlock: ${why}\n`),
      );
    },
  },
];
const NAMES = VERBS.map(({ name }) => name);

const USAGE = `interlock: which agent session has the floor

${VERBS.map(({ name, synopsis, summary }) => `  interlock ${name} ${synopsis}\n      ${summary}\n`).join("")}
  interlock <command> --help
      What a command takes.
  interlock --version
`;

const isNodeUrl = (url: string) => /^https?:\/\/./.test(url) && URL.canParse(url);
const isHelp = (arg: string | undefined) => arg === "--help" || arg === "-h" || arg === "help";
const isVersion = (arg: string | undefined) => arg === "--version" || arg === "-v" || arg === "version";

async function main([name, ...args]: readonly string[]): Promise<number | undefined> {
  const asked = isHelp(name) ? args[0] : name;
  const verb = VERBS.find((each) => each.name === asked);
  if (verb && (isHelp(name) || args.some((arg) => arg === "--help" || arg === "-h"))) return print(helpOf(verb));
  if (verb) return await verb.run(args);
  if (asked === undefined && isHelp(name)) return print(USAGE);
  if (isVersion(name)) return print(`${VERSION}\n`);
  const fault = asked === undefined ? "" : `interlock: there is no command ${asked}${suggest(asked, NAMES)}\n\n`;
  process.stderr.write(`${fault}${USAGE}`);
  return MISUSED;
}

function print(text: string): number {
  endQuietlyWithoutReader(() => process.exit(0));
  process.stdout.write(text);
  return 0;
}

function misuse(verb: string, fault: string): number {
  process.stderr.write(`interlock: ${fault}${fault.endsWith("?") ? " See" : "; see"} interlock ${verb} --help\n`);
  return MISUSED;
}

/** End normally when the reader of the pipe has left, as in `interlock … | head`. */
function endQuietlyWithoutReader(end: () => void): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    end();
  });
}

function usualCatalogPath(): string {
  const reading = readSettings({ INTERLOCK_CONFIG: process.env["INTERLOCK_CONFIG"] });
  return reading.ok ? reading.settings.configPath : "config/agents_config.yaml";
}

const code = await main(process.argv.slice(2));
if (code !== undefined) process.exitCode = code;
