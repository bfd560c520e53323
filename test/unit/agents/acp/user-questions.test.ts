import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Form, ownOptionsOf, Permission, questionsOf } from "../../../../src/agents/acp/permission.ts";
import type { Part, RunControl } from "../../../../src/agents/agent.ts";
import type { RequestId } from "../../../../src/protocol/ids.ts";
import { MAX_OPTION_UNITS } from "../../../../src/protocol/interaction.ts";
import { acpAdapter, talking } from "../../../support/agents/programs.ts";
import {
  createRunStage,
  ofType,
  play,
  playUntil,
  type RunStage,
  textOf,
  turnOf,
} from "../../../support/agents/run-stage.ts";
import { turn } from "../../../support/runner/virtual-clock.ts";
import { makeFolder } from "../../../support/stores/sqlite-place.ts";

/** A turn of a new coding agent, or of one of the test, whose user gives these answers. */
async function answered(
  content: string,
  answers: Parameters<RunStage["willAnswer"]>,
  rest = {},
  agent = talking().agent,
) {
  const stage = createRunStage();
  stage.willAnswer(...answers);
  const parts = await play(agent, turnOf(content, rest), stage);
  return { parts, text: textOf(parts), asked: stage.asked };
}

describe("permission", () => {
  const confirm = (verdict: "approve" | "approve_always" | "reject", reason?: string) =>
    ({ kind: "confirmation", verdict, ...(reason && { reason }) }) as const;

  test("permission is requested from the user once the call was reported, and is given once", async () => {
    const { parts, text, asked } = await answered("permit", [confirm("approve")]);
    const call = { toolCallId: "t1", function: { name: "shell", arguments: '{"command":"ls /"}' } };
    expect(asked).toEqual([{ kind: "confirmation", toolCall: call, isSensitive: true, approves: "acp:subject/shell" }]);
    expect(ofType(parts, "tool-call").map((part) => part.call)).toEqual([call]);
    expect(ofType(parts, "tool-result")).toMatchObject([{ content: "bin etc", status: "success" }]);
    expect(text).toBe("first: once");
  });

  test("permission for the whole session is kept by Interlock, and given to the agent once each time", async () => {
    const first = await answered("twice", [confirm("approve_always")]);
    expect(first).toMatchObject({ text: "first: once, second: once", asked: [{ kind: "confirmation" }] });
    const later = await answered("permit", [], { approvedTools: ["acp:subject/shell"] });
    expect(later).toMatchObject({ text: "first: once", asked: [] });
  });

  test("permission for the whole session is given once the run has the call, so that no call acts unrecorded", async () => {
    const stage = createRunStage();
    const approved = { approvedTools: ["acp:subject/shell"] };
    const { parts, rest } = await playUntil(talking().agent, turnOf("permit", approved), stage, "provider-session");
    let isGiven = false;
    const given = stage.next("gate").then(() => (isGiven = true));
    for (let next = await parts.next(); next.value?.type !== "tool-call"; next = await parts.next());
    await turn();
    expect(isGiven).toBe(false);
    const said = textOf(await rest());
    await given;
    expect(said).toBe("first: once");
  });

  test("permission for the whole session also answers a request that already waits", async () => {
    const { control } = createRunStage();
    const asked: string[] = [];
    const bothRequested = Promise.withResolvers<void>();
    const ask: RunControl["askUser"] = async (interaction) => {
      asked.push(interaction.kind);
      await bothRequested.promise;
      return { ...confirm("approve_always"), requestId: "request_1" as RequestId };
    };
    const parts: Part[] = [];
    for await (const part of talking().agent.run(turnOf("pair"), { ...control, askUser: ask })) {
      parts.push(part);
      if (ofType(parts, "tool-call").length === 2) bothRequested.resolve();
    }
    expect(textOf(parts)).toBe("both: once, once");
    expect(asked).toEqual(["confirmation"]);
  });

  test("permission for the whole session is valid for a coding agent that is called twice as a sub-agent", async () => {
    const helper = { name: "helper", instructions: "permit", adapter: acpAdapter() };
    const { agent } = talking(acpAdapter(), { tools: ["sub-agent"] }, {}, { others: [helper] });
    const call = ["sub-agent", { name: "helper", task: "go" }];
    const answers = [confirm("approve_always"), confirm("reject")];
    const { text, asked } = await answered(`calls ${JSON.stringify([call, call])}`, answers, {}, agent);
    expect(text).toBe('{"ok":true,"result":"first: once"} '.repeat(2));
    expect(asked).toHaveLength(1);
  });

  test.each([
    ["that the user gives", []],
    ["for the whole session", ["acp:subject/shell"]],
  ])("permission %s while the session is paused reaches the agent after the resume", async (_, approvedTools) => {
    const stage = createRunStage();
    stage.willAnswer(confirm("approve"));
    stage.hold();
    const run = play(talking().agent, turnOf("permit", { approvedTools }), stage);
    const first = await Promise.race([run.then(textOf), stage.next("gate").then(() => "it waits")]);
    expect(first).toBe("it waits");
    stage.goOn();
    expect(textOf(await run)).toBe("first: once");
  });

  test("a name that the agent chooses is not approved by the approval of another agent's tool or of Interlock's", async () => {
    const approvedTools = ["shell", "acp:other/shell"];
    const { text, asked } = await answered("permit", [confirm("reject")], { approvedTools });
    expect(text).toBe("first: no");
    expect(asked).toHaveLength(1);
  });

  test("a permission or a form that the agent cancels is withdrawn from the user, and the agent is told so", async () => {
    const { folder, remove } = await makeFolder();
    onTestFinished(remove);
    const gate = join(folder, "go");
    const stage = createRunStage();
    const run = play(talking().agent, turnOf(`reconsiders ${gate}`), stage);
    await vi.waitUntil(() => stage.asked.length === 2, { timeout: 60_000 });
    writeFileSync(gate, "");
    expect(textOf(await run)).toBe("[-32800,-32800]");
    expect(stage.withdrawn.map(({ kind }) => kind).toSorted()).toEqual(["confirmation", "question"]);
  });

  test("a permission that the agent cancels before the user sees it is never asked", async () => {
    const stage = createRunStage();
    const { rest } = await playUntil(talking().agent, turnOf("reconsiders"), stage, "provider-session");
    // Both requests and their ends have come, like those of a run that is held.
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(textOf(await rest())).toBe("[-32800,-32800]");
    expect(stage.asked).toEqual([]);
  });

  test.each([
    [{ verdict: "approve", choice: "approve:manual" }, "manual"],
    [{ verdict: "approve", choice: "approve:unknown" }, "auto"],
    [{ verdict: "approve" }, "auto"],
    [{ verdict: "reject" }, "keep"],
  ] as const)(
    "permission with several ways to approve shows the agent's own options: %j chooses %s",
    async (answer, chosen) => {
      const { text, asked } = await answered("plans", [{ kind: "confirmation", ...answer }]);
      expect(asked).toMatchObject([
        {
          options: [
            { value: "approve:auto", label: "Yes, and accept edits" },
            { value: "approve:manual", label: "Yes, ask for each edit" },
            { value: "reject_with_reply" },
            { value: "reject", label: "No, keep planning" },
          ],
        },
      ]);
      expect(text).toBe(`chosen: ${chosen}`);
    },
  );

  test.each([
    [
      "in another mode, if there are several ways",
      "switch_mode",
      ["allow_once", "allow_always"],
      ["approve:0", "approve:1"],
    ],
    ["in another mode, if there is one way", "switch_mode", ["allow_once"], undefined],
    ["once and for ever, which approve says too", "execute", ["allow_once", "allow_always"], undefined],
    ["in two ways once", "execute", ["allow_once", "allow_once"], ["approve:0", "approve:1"]],
  ])("permission to go on %s", (_, kind, kinds, expected) => {
    const options = [...kinds, "reject_once"].map((each, index) => ({ optionId: `${index}`, name: each, kind: each }));
    const asked = Permission.parse({ sessionId: "s", toolCall: { toolCallId: "t", kind }, options });
    const shown = ownOptionsOf(asked, (text) => text)?.map(({ value }) => value);
    expect(shown).toEqual(expected && [...expected, "reject_with_reply", "reject"]);
  });

  test.each([
    ["the agent continues", "permit", undefined, "first: no"],
    ["the agent ends its turn", "halts", undefined, ""],
    ["a reply follows in the same run", "permit", "speak instead", "first: noOne, two, three."],
  ])("permission is refused if the user refuses it: %s", async (_, content, reason, said) => {
    const { parts, text } = await answered(content, [confirm("reject", reason)]);
    expect(text).toBe(said);
    expect(ofType(parts, "tool-result")).toMatchObject([{ content: "rejected", status: "error" }]);
    expect(ofType(parts, "exit")).toHaveLength(1);
  });
});

describe("a question of an agent", () => {
  test.each([
    [{ selected: ["blue"] }, { action: "accept", content: { q0: "b" } }],
    [
      { selected: [], customInput: "green" },
      { action: "accept", content: { q0_custom: "green" } },
    ],
    [{ selected: [], cancelled: true }, { action: "decline" }],
  ])("a question of a coding agent reaches the user, and its answer the agent: %j", async (answer, expected) => {
    const { text, asked } = await answered("asks", [{ kind: "question", ...answer }]);
    expect(asked).toEqual([{ kind: "question", question: "Which colour?\n\nColour", options: ["red", "blue"] }]);
    expect(JSON.parse(text)).toEqual(expected);
  });

  test("an option that is cut for the user is answered to the agent by its value", () => {
    const title = "a very long way to say yes ".repeat(100);
    const oneOf = [
      { const: "y", title },
      { const: "n", title: "no" },
    ];
    const form = Form.parse({ mode: "form", message: "Go on?", requestedSchema: { properties: { q: { oneOf } } } });
    const [question] = questionsOf(form, (text) => text);
    expect(question!.interaction).toMatchObject({ options: [title.slice(0, MAX_OPTION_UNITS), "no"] });
    const answer = (label: string) => question!.fill({ kind: "question", requestId: "r" as never, selected: [label] });
    expect(answer(title.slice(0, MAX_OPTION_UNITS))).toEqual({ q: "y" });
    expect(answer("no")).toEqual({ q: "n" });
  });
});
