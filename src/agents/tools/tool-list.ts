import { isTooDeep } from "../../protocol/internal/json-depth.ts";
import { textWithin } from "../../shared/text.ts";
import type { Redactor } from "../process/redactor.ts";
import { modelNameOf } from "./model-name.ts";
import type { Tool } from "./tool.ts";

/** The maximum number of tools per server: more than a model can choose from. */
const MAX_TOOLS = 256;
const MAX_DESCRIPTION_UNITS = 2_048;
/** The largest schema of a tool, in UTF-16 units. */
const MAX_SCHEMA_UNITS = 65_536;
/** The longest name of a tool, in UTF-16 units. */
const MAX_NAME_UNITS = 256;
/**
 * The schemas and descriptions of a server's tools together, in UTF-16 units: a model gets them with each of its calls.
 */
const MAX_LIST_UNITS = 1_048_576;
/** How many duplicate tools a log line names. */
const MAX_NAMED = 8;

/** The tools that one MCP server lists, within the limits. Those that are too many or too large are left out. */
export class ToolList {
  readonly #server: string;
  readonly #redactor: Redactor;
  readonly #tools = new Map<string, Tool>();
  readonly #repeated = new Set<string>();
  #units = 0;
  #leftOut = 0;

  constructor(server: string, redactor: Redactor) {
    this.#server = server;
    this.#redactor = redactor;
  }

  /** Whether tools were left out already, so that further ones need not be read. */
  get isFull(): boolean {
    return this.#leftOut > 0 && (this.#tools.size >= MAX_TOOLS || this.#units > MAX_LIST_UNITS - MAX_SCHEMA_UNITS);
  }

  tools(): Tool[] {
    return [...this.#tools.values()];
  }

  /** What is unusual about the list, for the log of the turn. */
  problems(): string[] {
    const named = [...this.#repeated].slice(0, MAX_NAMED);
    const problems = named.map((name) => this.#redactor.text(`it lists the tool ${name} more than once`));
    if (this.#leftOut > 0) {
      problems.push(`${this.#leftOut} of its tools are left out, because they are too many or too large`);
    }
    return problems;
  }

  /** A tool that is listed again stays as it was, and needs a confirmation if one of both does. */
  add(
    {
      name,
      description: rawDescription = "",
      inputSchema: schema,
    }: { name: string; description?: string | undefined; inputSchema: object },
    rest: Pick<Tool, "isConfirmed" | "timeoutMs" | "run">,
  ): void {
    const known = this.#tools.get(name);
    if (known) {
      this.#repeated.add(name);
      this.#tools.set(name, { ...known, isConfirmed: known.isConfirmed || rest.isConfirmed });
      return;
    }
    if (this.#tools.size >= MAX_TOOLS || name.length > MAX_NAME_UNITS) {
      this.#leftOut += 1;
      return;
    }
    const description = textWithin(this.#redactor.text(rawDescription), MAX_DESCRIPTION_UNITS);
    const schemaUnits = isTooDeep(schema) ? Number.POSITIVE_INFINITY : JSON.stringify(schema).length;
    const units = schemaUnits + description.length;
    if (schemaUnits > MAX_SCHEMA_UNITS || this.#units + units > MAX_LIST_UNITS) {
      this.#leftOut += 1;
      return;
    }
    this.#units += units;
    const inputSchema = { ...this.#redactor.value(schema) };
    this.#tools.set(name, { name: modelNameOf(this.#server, name), description, inputSchema, ...rest });
  }
}
