import { z } from "zod";
import { defineTool, fail, succeed, type Tool } from "./tool.ts";

const Input = z.strictObject({
  question: z.string().min(1).max(4_096).describe("The question for the user."),
  options: z.array(z.string().min(1).max(1_024)).max(20).default([]).describe("Answers to choose from, if any."),
  multiSelect: z.boolean().default(false).describe("Whether several options may be chosen."),
});

/** The tool `ask-user`: asks the user a question, and waits for the answer. The session sets the timeout. */
export const ASK_USER: Tool = defineTool({
  name: "ask-user",
  description:
    "Ask the user a question and wait for the answer. Use it only if you cannot continue without the answer.",
  input: Input,
  isConfirmed: false,
  timeoutMs: undefined,
  async run(question, { control }) {
    const answer = await control.askUser({ kind: "question", ...question });
    if (answer.kind !== "question") throw new Error(`a question was answered with a ${answer.kind}`);
    if (answer.cancelled) return fail("The user does not want to answer.");
    const { selected, customInput } = answer;
    return succeed(JSON.stringify({ selected, ...(customInput !== undefined && { answer: customInput }) }));
  },
});
