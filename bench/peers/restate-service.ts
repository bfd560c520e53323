import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { serveParent } from "../support/child.ts";

/** The work of bench/servers/bare-commands.ts as a virtual object of Restate. Arguments: the SDK's folder, a port. */
interface Context {
  key: string;
  get<T>(name: string): Promise<T | null>;
  set(name: string, value: unknown): void;
}
interface Sdk {
  object(definition: object): unknown;
  serve(options: { services: unknown[]; port: number }): Promise<number>;
}

const [folder, port] = process.argv.slice(2) as [string, string];
const { main } = (await import(pathToFileURL(join(folder, "package.json")).href, { with: { type: "json" } })).default;
const sdk = (await import(pathToFileURL(join(folder, main)).href)) as Sdk;

const TRANSITIONS: Record<string, Record<string, string>> = {
  active: { pause: "paused" },
  paused: { resume: "active" },
};

const take = (type: string) => async (context: Context) => {
  const floor = (await context.get<{ state: string; seq: number }>("floor")) ?? { state: "active", seq: 0 };
  const state = TRANSITIONS[floor.state]?.[type] ?? floor.state;
  const seq = floor.seq + 1;
  context.set("floor", { state, seq });
  context.set("event", { type, seq });
  return { success: true, floor: context.key, state, seq };
};

const floor = sdk.object({ name: "floor", handlers: { pause: take("pause"), resume: take("resume") } });
await sdk.serve({ services: [floor], port: Number(port) });
serveParent(`http://127.0.0.1:${port}`, { stop() {} });
