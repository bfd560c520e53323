import { InvalidArgumentError, Option } from "commander";
import { withSecretFiles } from "../config/secret-files.ts";
import { readSettings } from "../config/settings.ts";
import { minuteOf } from "../shared/wall-clock.ts";
import type { MatrixFormat } from "./check/matrix-text.ts";
import { type CommandLine, collect, durationMs, numberFrom, someText } from "./command-line.ts";
import { printLines } from "./printed-lines.ts";
import type { SimulationFormat } from "./simulate.ts";

interface CheckLine {
  strict?: true;
  matrix?: true;
  format?: MatrixFormat;
  /** Minutes after midnight. */
  at?: number;
  user?: string;
  flag?: string[];
  diff?: string;
}

interface ReplayLine {
  catalogue: string;
  former?: string[];
  expect?: string[];
  refusedLast: number;
  format: "text" | "markdown";
  json?: true;
}

/** The commands that work on a catalogue without a node. */
export function addPolicyCommands({ add, end }: Pick<CommandLine, "add" | "end">): void {
  add("check", "Validate a catalogue of agents, and warn of effects its author may not expect.", [
    "Exit code: 0; 1 with its faults; 2 if a file cannot be read, or with warnings and --strict.",
  ])
    .argument("[file]", "the catalogue; default: the one that a node would use")
    .addOption(
      new Option("--strict", "exit code 2 with warnings").conflicts(["matrix", "format", "at", "user", "flag", "diff"]),
    )
    .option("--matrix", "print the decision for each pair of challenger and holder, in place of warnings")
    .addOption(
      new Option("--format <format>", "how the matrix is printed: text for 80 columns, json for programs").choices([
        "text",
        "markdown",
        "json",
      ]),
    )
    .option("--at <HH:MM>", "the matrix at this time, in the time zone of the first rule with hours", minuteOfDay)
    .option("--user <id>", "the matrix on the floor of this user", someText)
    .option("--flag <name>", "the matrix with this flag set on the floor; may be repeated", collect)
    .option("--diff <other.yaml>", "only the cells of the matrix that another catalogue would change")
    .action(async (file: string | undefined, options: CheckLine) => {
      const { checkCatalog } = await import("./check/check.ts");
      const { strict, matrix, format, at: minute, user: userId, flag: flags, diff } = options;
      const hasOptions = [matrix, format, minute, userId, flags, diff].some((option) => option !== undefined);
      const query = hasOptions ? { format: format ?? ("text" as const), minute, userId, flags, diff } : undefined;
      const env = withSecretFiles(process.env);
      end(await checkCatalog(file ?? usualCatalogPath(), process.stdout, env, { strict, matrix: query }));
    });

  add("route", "Say which agent hears a sentence that names none, by the catalogue's routing.", [
    "Exit code: 0; 1 if the catalogue has faults; 2 if it cannot be read.",
  ])
    .argument("<sentence>", "what is said, in quotes", someText)
    .argument("[file]", "the catalogue; default: the one that a node would use")
    .option("--json", "print the facts as JSON")
    .action(async (sentence: string, file: string | undefined, { json = false }: { json?: boolean }) => {
      const { routeSentence } = await import("./route.ts");
      end(await routeSentence(sentence, file ?? usualCatalogPath(), process.stdout, json));
    });

  add("simulate", "Play a script of requests on a virtual clock, and check what it expects.", [
    "docs/use/policy.md has the keys of a script.",
    "Exit code: 0; 1 if an expectation does not hold or a file has faults; 2 if a file cannot be read.",
  ])
    .argument("<file>", "who asks when, who ends, who dies, flags and hours; its expect lines make it a test")
    .option("--config <file>", "the catalogue to play with, in place of the one that the script names")
    .addOption(
      new Option("--format <format>", "text; json: a log that the page opens; svg: the timeline as a picture")
        .choices(["text", "json", "svg"])
        .default("text"),
    )
    .action(async (script: string, { config, format }: { config?: string; format: SimulationFormat }) => {
      const { simulate } = await import("./simulate.ts");
      const options = { format, catalogPath: config, usualPath: usualCatalogPath(), env: process.env };
      end(await simulate(script, process.stdout, options, complain));
    });

  add(
    "prove",
    "Explore what can happen on a floor with a catalogue's agents, and check the invariants and its claims.",
    [
      "A violation is printed as the shortest script that interlock simulate plays.",
      "Exit code: 0 if all holds; 1 if something does not hold or the catalogue has faults; 2 if it cannot be read;",
      "3 if it was not explored far enough to say so; 4 if what was found does not play, a fault of this command.",
    ],
  )
    .argument("[file]", "the catalogue; default: the one that a node would use")
    .option(
      "--sessions <count>",
      "sessions at a time, explored to the end; default: as many as its work allows",
      numberFrom(1, MAX_COUNT),
    )
    .option(
      "--seconds <count>",
      "how long it may take at most; what it cuts short does not hold",
      numberFrom(1, MAX_COUNT),
    )
    .action(async (file: string | undefined, { sessions, seconds }: { sessions?: number; seconds?: number }) => {
      const { proveCatalog } = await import("./prove.ts");
      const options = { sessions, seconds, env: process.env, progress: process.stderr };
      end(await proveCatalog(file ?? usualCatalogPath(), process.stdout, options));
    });

  add("replay", "Play the logs of floors once more with another catalogue, and tell what would have happened.", [
    "A log is what the page saves, what interlock export --logs writes, or what interlock simulate --format json prints.",
    "Exit code: 0; 1 if an expectation does not hold or a file has faults; 2 if a file cannot be read.",
  ])
    .argument("<log...>", "files with logs")
    .requiredOption("--catalogue <file>", "the catalogue to play them with")
    .option("--former <file...>", "catalogues that were in force: each is used while a log names it")
    .option("--expect <line...>", "what is expected of an agent, as in a script: '{ agent: phone_agent, rejected: 0 }'")
    .option(
      "--refused-last <duration>",
      "how long a session is heard that was refused and is not now",
      durationMs,
      30_000,
    )
    .addOption(new Option("--format <format>", "text for 80 columns").choices(["text", "markdown"]).default("text"))
    .option("--json", "print the facts as JSON")
    .action(async (logs: string[], options: ReplayLine) => {
      const { replayLogs } = await import("./replay.ts");
      const { catalogue, former = [], expect = [], refusedLast, format, json } = options;
      const asked = { cataloguePath: catalogue, formerPaths: former, expectations: expect, refusedLastMs: refusedLast };
      end(
        await replayLogs(
          logs,
          process.stdout,
          { ...asked, format: json ? "json" : format, env: process.env },
          complain,
        ),
      );
    });
}

/** The largest number of sessions, and of seconds. */
const MAX_COUNT = 100_000;

const complain = (line: string): void => printLines(process.stderr, [line]);

function usualCatalogPath(): string {
  const reading = readSettings({ INTERLOCK_CONFIG: process.env["INTERLOCK_CONFIG"] });
  return reading.ok ? reading.settings.configPath : "config/agents_config.yaml";
}

function minuteOfDay(text: string): number {
  const minute = minuteOf(text);
  if (minute === undefined)
    throw new InvalidArgumentError("It is a time from 00:00 to 23:59, perhaps after a day, as in 'sat 23:30'.");
  return minute;
}
