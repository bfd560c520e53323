import { z } from "zod";
import type { Part, RunControl, Turn } from "../agent.ts";

/** The answer of a tool, for the model and for the log. */
export interface ToolOutcome {
  readonly content: string;
  readonly isError: boolean;
}

/** A call as the tool receives it. */
export interface ToolInput {
  /** Identifies the call in the log; unique in the run. */
  readonly toolCallId: string;
  readonly turn: Turn;
  /** Its signal ends this call, at the end of the run or at the timeout. */
  readonly control: RunControl;
  /**
   * Send intermediate output to readers. Resolves when it is among the run's own parts, so that `control.untilMayAct`
   * waits until it is recorded (rule C11).
   */
  readonly emit: (part: Part) => Promise<void>;
}

/**
 * A tool that a model may call. Its code is Interlock's or an MCP server's; the catalogue only selects and limits it.
 */
export interface Tool {
  /** The name for models: letters, digits, `_` and `-`, at most 64. */
  readonly name: string;
  readonly description: string;
  /** The JSON schema of its arguments, which are an object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** Whether a person must confirm each call. */
  readonly isConfirmed: boolean;
  /** How long one call may take, in ms; undefined if the tool has its own timeouts. */
  readonly timeoutMs: number | undefined;
  /**
   * Execute a call. The model receives an error answer, and the turn continues. A thrown `AppError` becomes an error
   * answer with its text; the text of other errors is only logged.
   */
  run(input: unknown, use: ToolInput): Promise<ToolOutcome>;
}

/** The outcome of a call that worked. */
export function succeed(content: string): ToolOutcome {
  return { content, isError: false };
}

/** The outcome of a call that failed. `content`: why, for the model. */
export function fail(content: string): ToolOutcome {
  return { content, isError: true };
}

/** A tool whose arguments are parsed by a schema. Invalid arguments are answered with their faults. */
export function defineTool<Input>({
  input: schema,
  run,
  ...rest
}: Omit<Tool, "inputSchema" | "run"> & {
  readonly input: z.ZodType<Input>;
  readonly run: (input: Input, use: ToolInput) => Promise<ToolOutcome>;
}): Tool {
  const { $schema: _, ...inputSchema } = z.toJSONSchema(schema, { io: "input" });
  return {
    ...rest,
    inputSchema,
    async run(input, use) {
      const read = schema.safeParse(input);
      if (!read.success) return fail(`The arguments are invalid: ${z.prettifyError(read.error)}`);
      return await run(read.data, use);
    },
  };
}
