import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ProviderReply, ProviderRequest } from "../servers/provider-server.ts";
import { makeFolder } from "../stores/sqlite-place.ts";
import { CACHED } from "./programs.ts";

const PROGRAM = fileURLToPath(new URL("acting-tool-server.ts", import.meta.url));

/** Who delegates to whom. The last one of a chain sends two letters, one after the other. */
const NEXT: Readonly<Record<string, string>> = {
  boss: "clerk",
  chief: "helper",
  helper: "clerk",
};

/** Models that delegate, and those that act for them. Of all, only `clerk` may not begin again after it acted. */
export async function makeDelegatingModels(baseUrl: string) {
  const { folder, remove } = await makeFolder();
  const acts = join(folder, "acts");
  const armed = join(folder, "armed");
  const modelOf = (name: string, restartable: boolean) => {
    return { kind: "ai-sdk", provider: "openai-compatible", base_url: baseUrl, model: name, restartable };
  };
  const tools = [{ name: "mcp:desk/send", confirm: false }];
  const agents: Record<string, unknown>[] = [
    ...Object.keys(NEXT).map((name) => ({ name, tools: ["sub-agent"], adapter: modelOf(name, true) })),
    { name: "clerk", tools, adapter: modelOf("clerk", false) },
  ];
  const desk = { name: "desk", command: process.execPath, args: ["--no-warnings", PROGRAM, acts, armed], set: CACHED };
  return {
    agents,
    mcp_servers: [desk],
    /** At the next letter, kill a process, in the instant in which it is sent. */
    willKill: (pid: number) => writeFileSync(armed, String(pid)),
    /** Letters that were sent. */
    sent: () => (existsSync(acts) ? readFileSync(acts, "utf8").split("\n").filter(Boolean) : []),
    /** Whether the answer to a request is the first letter. */
    isFirstAct: ({ body }: ProviderRequest) => body.includes('"model":"clerk"') && !body.includes('"role":"tool"'),
    /** What such a model answers; undefined for another one. */
    answer({ body }: ProviderRequest): ProviderReply | undefined {
      const { model, tools: known = [] } = JSON.parse(body) as {
        model: string;
        tools?: { function: { name: string } }[];
      };
      const answered = body.split('"role":"tool"').length - 1;
      const call = (name: string, input: object): ProviderReply => {
        return { kind: "stream", calls: [{ id: `c${answered}`, name, arguments: JSON.stringify(input) }] };
      };
      const done: ProviderReply = { kind: "stream", text: ["Done."] };
      const next = NEXT[model];
      if (next) return answered > 0 ? done : call("sub-agent", { name: next, task: "send it" });
      if (model !== "clerk") return undefined;
      return answered > 1 ? done : call(known[0]!.function.name, { to: `person-${answered + 1}` });
    },
    remove,
  };
}
