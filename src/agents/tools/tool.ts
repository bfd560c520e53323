import { z } from "zod";
import type { Part, RunControl, Turn } from "../agent.ts";

/** What a tool answers: to the model that called it, and in the log. */
export interface ToolOutcome {
  readonly content: string;
  readonly isError: boolean;
}

/** A call as the tool gets it. */
export interface ToolUse {
  /** Names the call in the log; no other call of the run has it. */
  readonly toolCallId: string;
  readonly turn: Turn;
  /** Its signal ends this call: with the run, or when its time is over. */
  readonly control: RunControl;
  /** Tell readers something meanwhile. Resolves when there is room for more. */
  readonly tell: (part: Part) => Promise<void>;
}

/** Something a model may have done. Its code is ours or an MCP server's; data only chooses and bounds it. */
export interface Tool {
  /** What models call it: letters, digits, `_` and `-`, at most 64. */
  readonly name: string;
  readonly description: string;
  /** JSON schema of its arguments: an object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** Whether a person has to agree to each call. */
  readonly isConfirmed: boolean;
  /** How long one call may take, in ms; undefined where what it does has bounds of its own. */
  readonly timeoutMs: number | undefined;
  /**
   * Do it. An answer that is an error goes to the model, and the turn goes on. An `AppError` that is thrown becomes
   * such an answer with its text; of anything else only the log hears.
   */
  run(input: unknown, use: ToolUse): Promise<ToolOutcome>;
}

export function succeed(content: string): ToolOutcome {
  return { content, isError: false };
}

export function fail(content: string): ToolOutcome {
  return { content, isError: true };
}

/** A tool whose arguments are read by a schema: one that does not fit answers with what is wrong. */
export function defineTool<Input>({
  input: schema,
  run,
  ...rest
}: Omit<Tool, "inputSchema" | "run"> & {
  readonly input: z.ZodType<Input>;
  readonly run: (input: Input, use: ToolUse) => Promise<ToolOutcome>;
}): Tool {
  const { $schema: _, ...inputSchema } = z.toJSONSchema(schema, { io: "input" });
  return {
    ...rest,
    inputSchema,
    async run(input, use) {
      const read = schema.safeParse(input);
      if (!read.success) return fail(`The arguments do not fit: ${z.prettifyError(read.error)}`);
      return await run(read.data, use);
    },
  };
}
