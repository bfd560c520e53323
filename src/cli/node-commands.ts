import { Argument, InvalidArgumentError, Option } from "commander";
import type { Client } from "../client/client.ts";
import { FLOOR_FORMS, FloorId, RunId, SessionId } from "../protocol/ids.ts";
import { RUN_STATES } from "../protocol/listed-run.ts";
import {
  type CommandLine,
  durationMs,
  floorArgument,
  languageOption,
  numberFrom,
  oneOf,
  someText,
  TOKEN_NOTE,
  untilStopped,
  urlOption,
} from "./command-line.ts";
import { type Language, languageOf } from "./language.ts";
import { complain, printJson, printLines } from "./printed-lines.ts";
import type { Report, SessionsQuery } from "./reports.ts";
import type { RunsQuery } from "./run-report.ts";

interface NodeOptions {
  url: string;
  json?: true;
  lang?: Language;
}

/** Add the commands that ask a running node. */
export function addNodeCommands({ add, end, stdout }: CommandLine): void {
  /** A command that prints what a node says. */
  const report = (name: string, summary: string, notes: readonly string[] = []) =>
    add(name, summary, [TOKEN_NOTE, ...notes])
      .addOption(urlOption())
      .option("--json", "print the facts as JSON");
  const print = async (
    { url, json, lang }: NodeOptions,
    make: (client: Client) => Promise<Report>,
    absent?: string,
  ) => {
    const { clientOf, explainFailure } = await import("./node-client.ts");
    try {
      const { facts, lines, isFaulty } = await make(clientOf(url, process.env, lang));
      if (json) printJson(process.stdout, facts);
      else printLines(process.stdout, lines);
      if (isFaulty) end(1);
    } catch (error) {
      complain(process.stderr, explainFailure(error, { baseUrl: url, env: process.env, absent }));
      end(1);
    }
  };
  report("status", "Show what every node does, what waits, and which roles no node has; for operators.", [
    "Exit code: 0; 1 if a role has no node, or a node is not ready.",
  ]).action(async (options: NodeOptions) => {
    const { reportStatus } = await import("./reports.ts");
    await print(options, (client) => reportStatus(client, Date.now()));
  });

  report("agents", "List the agents that sessions may have.").action(async (options: NodeOptions) => {
    const { reportAgents } = await import("./reports.ts");
    await print(options, reportAgents);
  });

  report("sessions", "List sessions, those with the newest activity first.")
    .option("--user <name>", "only this user's", someText)
    .option("--agent <name>", "only this agent's", someText)
    .option("--archived", "archived ones too")
    .option("--limit <number>", "the maximum number of sessions", numberFrom(1, 10_000), 50)
    .action(async (options: NodeOptions & SessionsQuery) => {
      const { reportSessions } = await import("./reports.ts");
      await print(options, (client) => reportSessions(client, options, Date.now()));
    });

  const runs = report(
    "runs",
    "List the runs that have not ended, of the session that has had some for longest first, and the last failures.",
    ["An operator's key shows all runs, another one those of its owner."],
  )
    // After `cancel` an option is that command's.
    .enablePositionalOptions()
    .addOption(new Option("--state <state>", "only those of this state").choices([...RUN_STATES]))
    .option("--user <name>", "only this user's", someText)
    .option("--agent <name>", "only this agent's", someText)
    .option("--older <duration>", "only those that are at least so old, as in 5m", durationMs)
    .option("--newer <duration>", "only those that are at most so old", durationMs)
    .option("--limit <number>", "the maximum number of runs, and of failures", numberFrom(1, 10_000), 50)
    .action(async (options: NodeOptions & RunsQuery) => {
      const { reportRuns } = await import("./run-report.ts");
      await print(options, (client) => reportRuns(client, options, Date.now()));
    });
  runs
    .command("cancel")
    .description("Cancel a run that has not ended; a turn that has not begun is withdrawn.")
    .argument("<run>", "its id, as `interlock runs` prints it", oneOf("It is a run's id.", RunId))
    .addOption(urlOption())
    .option("--json", "print the facts as JSON")
    .showHelpAfterError("See interlock runs cancel --help")
    .addHelpText("after", `\n${TOKEN_NOTE}\nExit code: 0; 1 if there is no such run, or the node refuses.`)
    .action(async (id: string, options: NodeOptions) => {
      const { reportCancelled } = await import("./run-report.ts");
      await print(
        options,
        (client) => reportCancelled(client, id),
        `There is no unfinished run ${id} at ${options.url}.`,
      );
    });

  report("why", "Tell why a session is silent, or what happened on a floor, and what would let the session through.")
    .argument(
      "<session|floor>",
      `a session's id, or a floor: ${FLOOR_FORMS}`,
      oneOf(`It is a session's id, or a floor: ${FLOOR_FORMS}.`, SessionId, FloorId),
    )
    .option("--limit <number>", "the maximum number of lines of the story", numberFrom(1, 1_000), 20)
    .addOption(languageOption("the language of the sentences; default: that of the terminal"))
    .action(async (what: string, options: NodeOptions & { limit: number }) => {
      const [{ isFloor, reportWhy }, { paintFor }] = await Promise.all([import("./why.ts"), import("./paint.ts")]);
      const { limit, lang: language = languageOf(process.env) } = options;
      const query = { what, limit, language, paint: paintFor(process.stdout, process.env) };
      const kind = isFloor(what) ? "floor" : "session";
      const absent = `There is no ${kind} ${what} at ${options.url}, or INTERLOCK_TOKEN may not see it.`;
      await print({ ...options, lang: language }, (client) => reportWhy(client, query, Date.now()), absent);
    });

  report("webhooks", "List the webhooks and what waits for their receivers, test or enable one; for operators.", [
    "Exit code: 0; 1 if a receiver accepts no notices, or not the test.",
  ])
    .addArgument(new Argument("[what]", "send a test, or enable a disabled one").choices(["test", "enable"]))
    .argument("[name]", "of the webhook to test or enable", someText)
    .action(async (what: "test" | "enable" | undefined, name: string | undefined, options: NodeOptions) => {
      if (what && name === undefined) throw new InvalidArgumentError(`Which one? interlock webhooks ${what} <name>`);
      const { reportWebhooks, reportWebhookTest, reportWebhookEnabled } = await import("./reports.ts");
      const about = what === "enable" ? reportWebhookEnabled : reportWebhookTest;
      await print(options, name === undefined ? reportWebhooks : (client) => about(client, name));
    });

  add("chat", "Talk with the agents of a node in this terminal, or by lines from a pipe.", [
    TOKEN_NOTE,
    "From a pipe each line is a message, sent when the one before is answered: echo hello | interlock chat",
    "Exit code: 0, or 1 if the node refuses the chat or, from a pipe, something was refused or failed.",
  ])
    .addOption(urlOption())
    .option(
      "--agent <name>",
      "the agent of new sessions; default: by routing that of each message, or the catalogue's",
      someText,
    )
    .option("--user <name>", "whose sessions they are; default: the user of this machine", someText)
    .addOption(languageOption("the language of the sentences; default: that of the terminal"))
    .action(async ({ lang, ...options }: { url: string; agent?: string; user?: string; lang?: Language }) => {
      const { runChat } = await import("./run-chat.ts");
      // The session of a pipe ends first.
      const signal = untilStopped(stdout, "SIGINT", "SIGTERM", "SIGHUP");
      end(await runChat({ ...options, language: lang, signal }, process));
    });

  report("announce", "Tell a text on each open floor of a user, as in every room of a house.", [
    "Exit code: 0; 1 if every floor refuses, or the node does.",
  ])
    .argument("<text>", "what each session is told", someText)
    .requiredOption("--user <name>", "whose floors", someText)
    .option("--agent <name>", "the agent of the sessions; default: the catalogue's", someText)
    .action(async (text: string, options: NodeOptions & { user: string; agent?: string }) => {
      const { reportAnnouncement } = await import("./announce.ts");
      await print(options, (client) => reportAnnouncement(client, { ...options, text }));
    });

  add("export", "Write the logs of floors, without what was said, for interlock replay.", [
    TOKEN_NOTE,
    "A line of JSON for each floor. An operator's key exports all floors.",
    "Exit code: 0, or 1 if the node refuses or the file cannot be written.",
  ])
    .argument("[file]", "a new file; default: stdout")
    .requiredOption("--logs", "what is written: logs, at present the only choice")
    .option("--since <duration>", "how old the oldest event may be, as in 30d; default: all that are kept", durationMs)
    .option("--floor <id>", `only this floor: ${FLOOR_FORMS}`, floorArgument)
    .addOption(urlOption())
    .action(async (file: string | undefined, options: { url: string; since?: number; floor?: string }) => {
      const { exportLogs } = await import("./export-logs.ts");
      const { url, since: sinceMs, floor } = options;
      end(await exportLogs(file, { url, sinceMs, floor }, process, Date.now()));
    });

  add("forget", "Delete all that a running store has about a user, with its sessions; for operators.", [TOKEN_NOTE])
    .argument("<user>", "the userId of its sessions", someText)
    .addOption(urlOption())
    .option("--export <file>", "first write a copy of it to this new file, as lines of JSON")
    .option("--yes", "do not ask")
    .action(async (user: string, options: { url: string; export?: string; yes?: true }) => {
      const { runForget } = await import("./forget.ts");
      end(await runForget(user, options, process));
    });
}
