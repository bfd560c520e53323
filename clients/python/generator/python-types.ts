/** The part of JSON Schema that the document uses. */
interface Schema {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  oneOf?: Schema[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  description?: string;
}

type Content = Record<string, { schema?: Schema }>;

interface Document {
  components: { schemas: Record<string, Schema> };
  paths: Record<
    string,
    Record<string, { operationId: string; responses: Record<string, { content?: Content | null | undefined }> }>
  >;
}

/** The name of each operation's answer. Operations with one name have the same answer. */
const ANSWERS: Record<string, string> = {
  createSession: "CreatedSession",
  loadSession: "LoadedSession",
  listSessions: "SessionPage",
  getSession: "SessionAnswer",
  changeSession: "SessionAnswer",
  deleteSession: "DeletedAnswer",
  switchMode: "SessionAnswer",
  activateSession: "SessionAnswer",
  pauseSession: "SessionAnswer",
  resumeSession: "SessionAnswer",
  archiveSession: "SessionAnswer",
  stopSession: "SessionAnswer",
  summarizeSession: "SessionAnswer",
  withdrawMessage: "WithdrawnAnswer",
  listMessages: "MessagePage",
  listQueue: "QueuePage",
  listLogLines: "LogPage",
  forkSession: "SessionAnswer",
  rollBackSession: "SessionAnswer",
  moveSession: "SessionAnswer",
  resendMessage: "TurnAnswer",
  editMessage: "TurnAnswer",
  sendMessage: "MessageAnswer",
  importSession: "ImportedSession",
  listFloors: "FloorPage",
  getFloor: "FloorView",
  stopFloor: "ArchivedAnswer",
  stopAllOnFloor: "ArchivedAnswer",
  setFloorFlags: "FlagsAnswer",
  changeFloorFlags: "FlagsAnswer",
  previewDecision: "WhatIfAnswer",
  replayFloor: "ReplayAnswer",
  listFloorEvents: "FloorLogPage",
  listAgents: "AgentsAnswer",
  listDefinitions: "DefinitionPage",
  getDefinition: "DefinitionAnswer",
  createDefinition: "DefinitionAnswer",
  changeDefinition: "DefinitionAnswer",
  deleteDefinition: "DeletedAnswer",
  getMatrix: "MatrixAnswer",
  compareCatalogue: "CatalogueDifference",
  getHealth: "Health",
  getReadiness: "Readiness",
  listNodes: "NodeList",
  forgetUser: "ForgottenUser",
  listUsage: "UsagePage",
  listRuns: "RunPage",
  cancelRun: "CancelledRun",
  listWebhooks: "WebhookList",
  testWebhook: "WebhookAnswer",
  enableWebhook: "EnabledWebhook",
};
/** Components that no answer refers to: the events of streams, and the form of every failure. */
const COMPONENTS = ["Problem", "SessionStreamEvent", "FloorStreamEvent", "FloorsStreamEvent", "ConnectionStreamEvent"];
/** Lists of words that have a name, by where the document has them. */
const NAMED_WORDS: Record<string, [component: string, ...path: string[]]> = {
  ErrorCode: ["Problem", "errorCode"],
  SessionState: ["Session", "state"],
  Activity: ["Session", "activity"],
  TransitionState: ["SessionTransitionEvent", "data", "to"],
};
const KEYWORDS = new Set(
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield".split(
    " ",
  ),
);

const HEAD = `# Written from /openapi.json by \`npm run build:python\`. Change the schemas, not this file.
"""What the server answers and sends, as the JSON has it.

Times are in milliseconds since 1970, except the \`\`timestamp\`\` of an event, which is an ISO date. A key that is not
required is absent if it has no value. A newer server may send keys and words that are not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Literal, Optional, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired
else:
    try:
        from typing import NotRequired
    except ImportError:  # Python before 3.11
        NotRequired = Optional
`;

/** The module of the Python client with the types of answers and events. */
export function pythonTypes(document: Document): string {
  return new Module(document).write();
}

class Module {
  readonly #document: Document;
  /** The names of the schemas that have one, by their text. */
  readonly #names = new Map<string, string>();
  readonly #classes = new Map<string, string>();
  readonly #unions: string[] = [];
  readonly #words: string[] = [];

  constructor(document: Document) {
    this.#document = document;
  }

  write(): string {
    for (const [name, [component, ...path]] of Object.entries(NAMED_WORDS)) {
      const { enum: words } = path.reduce((at, key) => at.properties![key]!, this.#component(component));
      this.#names.set(keyOf({ enum: words! }), name);
      this.#words.push(`${name} = Literal[\n${words!.map((word) => `    ${literal(word)},\n`).join("")}]\n`);
    }
    for (const name of COMPONENTS) this.#typeOf({ $ref: `#/components/schemas/${name}` }, name);
    for (const operations of Object.values(this.#document.paths)) {
      for (const operation of Object.values(operations)) this.#addAnswer(operation);
    }
    const events = [...this.#classes.keys()].filter((name) => /^(?!Logged).*Event$/.test(name));
    this.#unions.push(union("ServerEvent", events, "an event of any stream"));
    const types = events.map((name) => this.#component(name).properties!["type"]!.const);
    this.#unions.push(
      `\nEVENT_TYPES = frozenset(\n    [\n${types.map((type) => `        ${literal(type)},\n`).join("")}    ]\n)\n"""the types of events that this client knows."""\n`,
    );
    return `${[HEAD, ...this.#words].join("\n")}\n${[...[...this.#classes.values()], ...this.#unions].join("\n")}`;
  }

  #component(name: string): Schema {
    return this.#document.components.schemas[name]!;
  }

  #addAnswer({ operationId, responses }: Document["paths"][string][string]): void {
    const name = ANSWERS[operationId];
    const schema = responses["200"]?.content?.["application/json"]?.schema;
    if (name === undefined || schema === undefined) return;
    const known = this.#classes.get(name);
    const text = keyOf(schema);
    if (known !== undefined && this.#names.get(text) !== name) {
      throw new Error(`the answer of ${operationId} is another one than that of other operations with ${name}`);
    }
    this.#names.set(text, name);
    if (known === undefined) this.#addClass(name, schema);
  }

  /** @param place the name of an object that has none of its own */
  #typeOf(schema: Schema, place: string): string {
    if (schema.$ref !== undefined) return this.#typeOfComponent(schema.$ref.split("/").at(-1)!);
    if (schema.const !== undefined) return `Literal[${literal(schema.const)}]`;
    if (schema.enum)
      return this.#names.get(keyOf({ enum: schema.enum })) ?? `Literal[${schema.enum.map(literal).join(", ")}]`;
    const choices = schema.oneOf ?? schema.anyOf;
    if (choices) return unionOf(choices.map((choice) => this.#typeOf(choice, place)));
    if (Array.isArray(schema.type)) {
      return unionOf(schema.type.map((type) => this.#typeOf({ ...schema, type }, place)));
    }
    switch (schema.type) {
      case "string":
        return "str";
      case "integer":
        return "int";
      case "number":
        return "float";
      case "boolean":
        return "bool";
      case "null":
        return "None";
      case "array":
        return `List[${this.#typeOf(schema.items ?? {}, `${place}Item`)}]`;
      case "object":
        return this.#typeOfObject(schema, place);
      default:
        return "Any";
    }
  }

  #typeOfComponent(name: string): string {
    const schema = this.#component(name);
    if (schema.oneOf) {
      const text = union(
        name,
        schema.oneOf.map((each) => this.#typeOf(each, name)),
        schema.description,
      );
      if (!this.#unions.includes(text)) this.#unions.push(text);
      return name;
    }
    if (!this.#classes.has(name)) this.#addClass(name, schema);
    return name;
  }

  #typeOfObject(schema: Schema, place: string): string {
    if (!schema.properties || Object.keys(schema.properties).length === 0) {
      const { additionalProperties: values } = schema;
      return `Dict[str, ${typeof values === "object" ? this.#typeOf(values, `${place}Value`) : "Any"}]`;
    }
    const text = keyOf(schema);
    const known = this.#names.get(text);
    if (known !== undefined) return known;
    this.#names.set(text, place);
    this.#addClass(place, schema);
    return place;
  }

  #addClass(name: string, { properties = {}, required = [], description }: Schema): void {
    // Its place in the file is before the classes that it refers to.
    this.#classes.set(name, "");
    const fields = Object.entries(properties).map(([key, schema]) => {
      const type = this.#typeOf(schema, `${name}${key[0]!.toUpperCase()}${key.slice(1)}`);
      return { key, type: required.includes(key) ? type : `NotRequired[${type}]`, description: schema.description };
    });
    const isClass = fields.every(({ key }) => /^[A-Za-z_]\w*$/.test(key) && !KEYWORDS.has(key));
    const text = isClass
      ? `class ${name}(TypedDict):\n${docOf(description)}${fields
          .map(({ key, type, description: doc }) => `    ${key}: ${type}\n${docOf(doc)}`)
          .join("")}`
      : // A key that is a word of Python cannot be a name in a class.
        `${name} = TypedDict(\n    "${name}",\n    {\n${fields
          .map(({ key, type, description: doc }) => `${noteOf(doc)}        "${key}": "${type.replaceAll('"', "'")}",\n`)
          .join("")}    },\n)\n`;
    this.#classes.set(name, `\n${text}`);
  }
}

/** Two schemas with the same key have the same type. */
const keyOf = (schema: Schema): string =>
  JSON.stringify(schema, (key, value) =>
    /^(description|pattern)$/.test(key) && typeof value === "string" ? undefined : value,
  );

const literal = (value: unknown): string =>
  value === true ? "True" : value === false ? "False" : value === null ? "None" : JSON.stringify(value);

function unionOf(types: readonly string[]): string {
  const different = [...new Set(types)];
  const others = different.filter((type) => type !== "None");
  const whole = others.length === 1 ? others[0]! : `Union[${others.join(", ")}]`;
  return others.length < different.length ? `Optional[${whole}]` : whole;
}

const union = (name: string, types: readonly string[], description?: string): string =>
  `\n${name} = Union[\n${types.map((type) => `    ${type},\n`).join("")}]\n${description === undefined ? "" : `"""${sentence(description)}"""\n`}`;

const sentence = (text: string): string => `${text.replace(/\.$/, "")}.`;

const docOf = (text: string | undefined): string => (text === undefined ? "" : `    """${sentence(text)}"""\n`);

const noteOf = (text: string | undefined): string => (text === undefined ? "" : `        # ${sentence(text)}\n`);
