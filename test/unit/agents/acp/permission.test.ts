import { expect, test } from "vitest";
import { Form, questionsOf } from "../../../../src/agents/acp/permission.ts";
import { MAX_OPTION_UNITS } from "../../../../src/protocol/interaction.ts";

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
