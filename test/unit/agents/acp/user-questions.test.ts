import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Part, RunControl } from "../../../../src/agents/agent.ts";
import type { AgentId, RequestId } from "../../../../src/protocol/ids.ts";
import { gone } from "../../../support/agents/processes.ts";
import { acpAdapter, talking } from "../../../support/agents/programs.ts";
import { createRunStage, ofType, play, textOf, turnOf } from "../../../support/agents/run-stage.ts";
import { testRegistry } from "../../../support/agents/test-registry.ts";
import { makeCatalog } from "../../../support/catalogs/catalog.ts";
import { makeFolder } from "../../../support/stores/sqlite-place.ts";

describe("permission", () => {
  const confirm = (verdict: "approve" | "approve_always" | "reject", reason?: string) =>
    ({ kind: "confirmation", verdict, ...(reason && { reason }) }) as const;

  test("permission is requested from the user once the call was reported, and is given once", async () => {
    const stage = createRunStage();
    stage.willAnswer(confirm("approve"));
    const parts = await play(talking().agent, turnOf("permit"), stage);
    const call = { toolCallId: "t1", function: { name: "shell", arguments: '{"command":"ls /"}' } };
    const asked = { kind: "confirmation", toolCall: call, isSensitive: true, approves: "acp:subject/shell" };
    expect(stage.asked).toEqual([asked]);
    expect(ofType(parts, "tool-call").map((part) => part.call)).toEqual([call]);
    expect(ofType(parts, "tool-result")).toMatchObject([{ content: "bin etc", status: "success" }]);
    expect(textOf(parts)).toBe("first: once");
  });

  test("permission for the whole session is kept by Interlock, and given to the agent once each time", async () => {
    const stage = createRunStage();
    stage.willAnswer(confirm("approve_always"));
    expect(textOf(await play(talking().agent, turnOf("twice"), stage))).toBe("first: once, second: once");
    expect(stage.asked).toHaveLength(1);
    const later = createRunStage();
    expect(textOf(await play(talking().agent, turnOf("permit", { approvedTools: ["acp:subject/shell"] }), later))).toBe(
      "first: once",
    );
    expect(later.asked).toEqual([]);
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
    const catalog = makeCatalog([
      { name: "subject", tools: ["sub-agent"], adapter: acpAdapter() },
      { name: "helper", instructions: "permit", adapter: acpAdapter() },
    ]);
    const registry = testRegistry({ catalog: () => catalog, env: { PATH: process.env["PATH"] } });
    onTestFinished(() => registry.close());
    const stage = createRunStage();
    stage.willAnswer(confirm("approve_always"), confirm("reject"));
    const call = ["sub-agent", { name: "helper", task: "go" }];
    const turn = turnOf(`calls ${JSON.stringify([call, call])}`);
    const parts = await play(registry.find("subject" as AgentId)!, turn, stage);
    const result = '{"ok":true,"result":"first: once"} ';
    expect(textOf(parts)).toBe(result + result);
    expect(stage.asked).toHaveLength(1);
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
    const stage = createRunStage();
    stage.willAnswer(confirm("reject"));
    const turn = turnOf("permit", { approvedTools: ["shell", "acp:other/shell"] });
    expect(textOf(await play(talking().agent, turn, stage))).toBe("first: no");
    expect(stage.asked).toHaveLength(1);
  });

  test("a permission or a form that the agent cancels is withdrawn from the user, and the agent is told so", async () => {
    const { folder, remove } = await makeFolder();
    onTestFinished(remove);
    const gate = join(folder, "go");
    const stage = createRunStage();
    const run = play(talking().agent, turnOf(`reconsiders ${gate}`), stage);
    while (stage.asked.length < 2) await stage.next("question");
    writeFileSync(gate, "");
    expect(textOf(await run)).toBe("[-32800,-32800]");
    expect(stage.withdrawn.map(({ kind }) => kind).toSorted()).toEqual(["confirmation", "question"]);
  });

  test("a permission that the agent cancels before the user sees it is never asked", async () => {
    const stage = createRunStage();
    const parts = talking().agent.run(turnOf("reconsiders"), stage.control)[Symbol.asyncIterator]();
    let text = "";
    for (let next = await parts.next(); !next.done; next = await parts.next()) {
      // Both requests and their ends have come, like those of a run that is held.
      if (next.value.type === "provider-session") await new Promise((resolve) => setTimeout(resolve, 500));
      if (next.value.type === "text") text += next.value.text;
    }
    expect(text).toBe("[-32800,-32800]");
    expect(stage.asked).toEqual([]);
  });

  test("permission is refused if the user refuses it, whether the agent continues or ends its turn", async () => {
    const stage = createRunStage();
    stage.willAnswer(confirm("reject"), confirm("reject"));
    const parts = await play(talking().agent, turnOf("permit"), stage);
    expect(textOf(parts)).toBe("first: no");
    expect(ofType(parts, "tool-result")).toMatchObject([{ content: "rejected", status: "error" }]);
    const halted = await play(talking().agent, turnOf("halts"), stage);
    expect(ofType(halted, "exit")).toHaveLength(1);
  });

  test("a refusal of permission with a reply is followed by the reply, in the same run", async () => {
    const stage = createRunStage();
    stage.willAnswer(confirm("reject", "speak instead"));
    const parts = await play(talking().agent, turnOf("permit"), stage);
    expect(textOf(parts)).toBe("first: noOne, two, three.");
  });

  test("a request for permission is cancelled when the run ends first, and leaves nothing", async () => {
    const subject = talking();
    const stage = createRunStage();
    const parts = subject.agent.run(turnOf("permit"), stage.control)[Symbol.asyncIterator]();
    const asked = stage.next("question");
    const pulling = (async () => {
      for (;;) if ((await parts.next()).done) return;
    })().catch(() => {});
    await asked;
    stage.abort();
    await pulling;
    await gone(subject.tag);
    expect(stage.leftovers()).toEqual({ sleepers: 0, listeners: 0 });
  });
});

describe("a question of an agent", () => {
  test.each([
    [
      { kind: "question", selected: ["blue"] },
      { action: "accept", content: { q0: "b" } },
    ],
    [
      { kind: "question", selected: [], customInput: "green" },
      { action: "accept", content: { q0_custom: "green" } },
    ],
    [{ kind: "question", selected: [], cancelled: true }, { action: "decline" }],
  ] as const)(
    "a question of a coding agent reaches the user, and its answer the agent: %j",
    async (answer, expected) => {
      const stage = createRunStage();
      stage.willAnswer({ ...answer, selected: [...answer.selected] });
      const parts = await play(talking().agent, turnOf("asks"), stage);
      const question = "Which colour?\n\nColour";
      expect(stage.asked).toEqual([{ kind: "question", question, options: ["red", "blue"] }]);
      expect(JSON.parse(textOf(parts))).toEqual(expected);
    },
  );
});
