import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { generatedFiles, presentFile } from "../../clients/python/generate.ts";
import { MAX_BATCH, MAX_WAITING_COMMANDS } from "../../src/actors/host/host.ts";
import { SNAPSHOT_FORMAT } from "../../src/actors/host/snapshot.ts";
import { MAX_LOSSES, MAX_TURNS } from "../../src/actors/session/session-context.ts";
import { createProgram } from "../../src/cli/program.ts";
import { createClient } from "../../src/client/interlock-client.ts";
import { BOUNDS } from "../../src/config/bounds.ts";
import { MAX_INSTRUCTIONS } from "../../src/config/catalog/definition.ts";
import { SETTINGS } from "../../src/config/settings.ts";
import { MAX_SLOTS } from "../../src/gateway/streams/connections.ts";
import { OWNER_STREAMS } from "../../src/gateway/streams/open-streams.ts";
import { ClientMessage, MAX_CONTENT, MAX_IMAGE, MAX_IMAGES } from "../../src/protocol/client-message.ts";
import { Decision, OUTCOMES, REASONS } from "../../src/protocol/decision.ts";
import { ERRORS } from "../../src/protocol/errors.ts";
import {
  BYE_REASONS,
  LIVE_EVENTS,
  LOGGED_EVENTS,
  TRANSITION_EVENTS,
  WRITTEN_STATES,
} from "../../src/protocol/event.ts";
import { CONFIRMATION_OPTIONS } from "../../src/protocol/interaction.ts";
import { Message } from "../../src/protocol/message.ts";
import { Session } from "../../src/protocol/session.ts";
import { MAX_GROUP } from "../../src/store/sqlite/writer/writer-job.ts";
import { MAX_WAITING_WRITES as MAX_WRITES } from "../../src/store/sqlite/writer/writer-thread.ts";
import { stillMetrics } from "../support/nodes/still-metrics.ts";
import { codeOf, mentions, readPage, root, tablesOf } from "./page.ts";

const protocol = readPage("docs/use/protocol.md");
const operations = readPage("docs/operate/operations.md");
const arbitration = readPage("docs/use/arbitration.md");

const MIB = 1_048_576;

/** The names in the first column. */
const namesIn = (rows: readonly string[][]) => rows.map(([cell]) => codeOf(cell!)[0]);

function only(tables: string[][][]): string[][] {
  expect(tables.length).toBe(1);
  return tables[0]!;
}

describe("docs/use/protocol.md", () => {
  test("docs/use/protocol.md has every error code, with its status and whether it is retryable", () => {
    const rows = only(tablesOf(protocol, "code", "HTTP", "retry"));
    expect(rows.map(([code, status, retry]) => [codeOf(code!)[0], status, retry])).toEqual(
      Object.entries(ERRORS).map(([code, { status, retry }]) => [code, String(status), retry]),
    );
  });

  test("docs/use/protocol.md has every event, logged or not, with all its fields", () => {
    const [logged, live] = tablesOf(protocol, "type", "data") as [string[][], string[][]];
    expect(namesIn(logged)).toEqual(Object.keys(LOGGED_EVENTS));
    expect(namesIn(live)).toEqual(Object.keys(LIVE_EVENTS));
    const shapes: Record<string, { shape: object }> = { ...LOGGED_EVENTS, ...LIVE_EVENTS };
    // Described once for all, in separate paragraphs.
    delete shapes["session_created"];
    delete shapes["message"];
    for (const [type, cell] of [...logged, ...live]) {
      const fields = Object.keys(shapes[codeOf(type!)[0]!]?.shape ?? {});
      expect(
        fields.filter((field) => !mentions(cell!, field)),
        type,
      ).toEqual([]);
    }
  });

  test("docs/use/protocol.md describes a session and a message with all their fields, and no others", () => {
    const described = tablesOf(protocol, "field", "value").map((rows) => rows.flatMap(([names]) => codeOf(names!)));
    const fieldsOf = ({ shape }: { shape: Record<string, { isOptional(): boolean }> }) =>
      Object.entries(shape).map(([name, field]) => (field.isOptional() ? `${name}?` : name));
    expect(described.map((names) => names.toSorted())).toEqual([fieldsOf(Session).sort(), fieldsOf(Message).sort()]);
    const values = protocol.prose.slice(protocol.prose.indexOf("### Session"), protocol.prose.indexOf("## Failures"));
    const { state, activity, pausedBy } = Session.shape;
    const { role, status, finishReason } = Message.shape;
    const choices = [state, activity, pausedBy.unwrap(), role, status, finishReason.unwrap()].flatMap(
      ({ options }): string[] => [...options],
    );
    expect(choices.filter((choice) => !codeOf(values).includes(choice))).toEqual([]);
  });

  test("docs/use/protocol.md has every verb and every state of a transition", () => {
    expect(namesIn(only(tablesOf(protocol, "event", "when")))).toEqual([...TRANSITION_EVENTS]);
    const sentence = /A transition's states are written ([\s\S]*?)\. Its/.exec(protocol.prose)![1]!;
    expect(codeOf(sentence)).toEqual([...WRITTEN_STATES]);
  });

  test("docs/use/protocol.md has every reason of a farewell, and every answer to a confirmation", () => {
    expect(namesIn(only(tablesOf(protocol, "reason", "means")))).toEqual([...BYE_REASONS]);
    const row = tablesOf(protocol, "type", "data")[0]!.find(([type]) => type === "`tool_confirmation_request`")!;
    for (const { value } of CONFIRMATION_OPTIONS) expect(row[1]).toContain(`\`${value}\``);
  });

  test("docs/use/protocol.md has every message that a client may send, with its fields", () => {
    const rows = only(tablesOf(protocol, "type", "fields", "does"));
    const shapes = ClientMessage.options.map(({ shape }) => shape);
    expect(namesIn(rows)).toEqual(shapes.map(({ type }) => type.value));
    const common = ["type", "sessionId", "connectionId", "commandId"];
    for (const [index, [type, cell]] of rows.entries()) {
      if (cell === "as `chat`") continue;
      const fields = Object.keys(shapes[index]!).filter((field) => !common.includes(field));
      expect(
        fields.filter((field) => !mentions(cell!, field)),
        type,
      ).toEqual([]);
    }
  });
});

describe("docs/use/arbitration.md", () => {
  test("docs/use/arbitration.md has every outcome and every reason", () => {
    const sentence = /`outcome` is ([\s\S]*?)\. `reason` is one of ([\s\S]*?)\. `rule`/.exec(arbitration.prose)!;
    expect(codeOf(sentence[1]!)).toEqual([...OUTCOMES]);
    expect(codeOf(sentence[2]!)).toEqual([...REASONS]);
  });

  test("docs/use/arbitration.md has a row for every rule and reason with which the arbiter decides", () => {
    const file = "src/actors/floor/arbitration.ts";
    const code = readFileSync(join(root, file), "utf8");
    const made = [...code.matchAll(/"(\w+)", (\d+)\b/g)].map(([, reason, rule]) => `${rule}: ${reason}`);
    expect(made.length).toBeGreaterThan(15);
    const documented = only(tablesOf(arbitration, "rule", "if", "outcome", "reason")).flatMap(([rules, , , reasons]) =>
      rules!.split(", ").flatMap((rule) => codeOf(reasons!).map((reason) => `${rule}: ${reason}`)),
    );
    const missing = made.filter((pair) => !documented.includes(pair));
    expect(missing, `add these rules of ${file} to the table of rules`).toEqual([]);
  });

  test("docs/use/arbitration.md shows a valid decision", () => {
    const shown = arbitration.blocks.find(({ info }) => info === "json")!;
    expect(Decision.safeParse(JSON.parse(shown.text.replaceAll("…", "s1"))).error).toBeUndefined();
  });
});

describe("docs/operate/operations.md", () => {
  test("docs/operate/operations.md has every command", () => {
    const { commands } = createProgram({ onError: () => undefined });
    const rows = only(tablesOf(operations, "command", "does"));
    const documented = rows.flatMap(([cell]) => codeOf(cell!).map((text) => text.split(" ")[0]));
    expect(documented).toEqual([...commands.map((command) => command.name()), "complete"]);
  });

  test("docs/operate/operations.md has every setting, with its flag, its default and its meaning", () => {
    const rows = only(tablesOf(operations, "variable", "flag", "default"));
    const documented = rows.map(([name, flag, fallback, meaning]) => [name, flag, fallback, meaning]);
    expect(documented).toEqual(
      SETTINGS.map(({ name, flag, default: fallback, meaning }) => [
        `\`${name}\``,
        `\`${flag}\``,
        `\`${fallback}\``,
        meaning,
      ]),
    );
  });

  test("docs/operate/operations.md names the present format of a floor", () => {
    expect(operations.prose.replace(/\s+/g, " ")).toContain(`The present format is ${SNAPSHOT_FORMAT}.`);
  });

  test("docs/operate/operations.md has every metric, with its type and its meaning", async () => {
    const { text } = await stillMetrics().read();
    const heads = text.matchAll(/^# HELP (interlock_\S+) (.+)\n# TYPE \S+ (\S+)$/gm);
    const counted = [...heads].map(([, name, help, type]) => [`\`${name}\``, type, help]);
    expect(counted.length).toBeGreaterThan(5);
    expect(only(tablesOf(operations, "metric", "type"))).toEqual(counted);
  });

  test.each<[bound: string, ...values: number[]]>([
    ["commands that wait for one floor; as many positions of what was spoken besides", MAX_WAITING_COMMANDS],
    ["commands of a floor in one commit", MAX_BATCH],
    ["floors in memory", BOUNDS.activeFloors],
    ["writes that wait for the disk", MAX_WRITES],
    ["writes in one transaction", MAX_GROUP],
    ["runs driven at once", BOUNDS.runs],
    ["turns that wait in a session", MAX_TURNS],
    ["lost attempts of a run", MAX_LOSSES],
    ["event streams", BOUNDS.streams],
    ["event streams of one owner", OWNER_STREAMS],
    ["connections of any kind", BOUNDS.streams + BOUNDS.spareConnections],
    ["requests that wait on a connection behind the one under way", BOUNDS.pipelined],
    ["bodies over 4 KiB that arrive or are worked on", BOUNDS.addressBodyBytes / MIB, BOUNDS.bodyBytes / MIB],
    ["answers over 64 KiB that are not read", BOUNDS.addressAnswerBytes / MIB, BOUNDS.answerBytes / MIB],
    ["an answer that a client does not read", BOUNDS.stallMs / 1_000],
    ["faults that an answer names in `issues`", BOUNDS.shownIssues],
    ["events of a floor kept for readers", BOUNDS.keptEvents, BOUNDS.keptBytes / 1_048_576],
    ["unsent bytes of a reader", BOUNDS.unsentBytes],
    ["a reader that does not drain its socket", BOUNDS.stallMs / 1_000],
    ["living sessions of a connection", BOUNDS.liveSlots],
    ["sessions of a connection in its lifetime", MAX_SLOTS],
    ["runs of one owner driven at once", BOUNDS.ownerRuns],
    ["runs that wait for a person", BOUNDS.ownerWaitingRuns, BOUNDS.waitingRuns],
    ["agents that operators define", BOUNDS.workspaceDefinitions, BOUNDS.definitions, MAX_INSTRUCTIONS],
    ["a history that is copied or imported", BOUNDS.historyMessages, BOUNDS.historyBytes / MIB],
    ["histories that are copied, imported or exported at once", BOUNDS.histories, BOUNDS.callerHistories],
    ["a file that is imported; a line of it", BOUNDS.importBytes / MIB, BOUNDS.importedLineBytes / MIB],
    ["a user's message, an image, images", MAX_CONTENT, MAX_IMAGE, MAX_IMAGES],
  ])("docs/operate/operations.md has the limit: %s", (bound, ...values) => {
    const row = tablesOf(operations, "bound", "value")
      .flat()
      .find(([name]) => name === bound);
    const documented = ((row?.[1] ?? "").match(/\d[\d,]*/g) ?? []).map((digits) => Number(digits.replaceAll(",", "")));
    expect(documented).toEqual(values);
  });
});

/** The name of a method in any language. */
const plain = (name: string): string => name.replaceAll("_", "").toLowerCase();

describe("clients/python", () => {
  test("its types are those of /openapi.json, and its blocking client that of the asynchronous one: npm run build:python writes both", async () => {
    const files = await generatedFiles();
    expect(Object.keys(files)).toHaveLength(3);
    const stale = Object.entries(files).filter(([name, text]) => presentFile(name) !== text);
    expect(stale.map(([name]) => `${name} is stale: npm run build:python`)).toEqual([]);
  });

  test("it has the methods of the TypeScript client, but the cookies of pages", () => {
    const source = presentFile("_async_client.py");
    const methods = new Set(Array.from(source.matchAll(/^ {4}(?:async )?def (\w+)/gm), ([, name]) => plain(name!)));
    const missing = Object.keys(createClient({ baseUrl: "http://node" })).filter((name) => !methods.has(plain(name)));
    expect(missing).toEqual(["signIn", "signOut"]);
  });
});
