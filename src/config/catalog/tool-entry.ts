/**
 * The keys of `tools:` and `mcp_servers:`. The code implements the tools; an entry selects a tool and sets its limits.
 */

import { z } from "zod";
import { ModeName } from "../../protocol/session-settings.ts";
import { isNetwork } from "../network.ts";
import { duration } from "../quantities.ts";
import { program, variableName } from "./program-entry.ts";

const SERVER_NAME = "[a-z0-9_-]{1,32}";
const KEY = new RegExp(`^(clock|web-fetch|ask-user|sub-agent|mcp:${SERVER_NAME}/(\\*|[A-Za-z0-9_.-]{1,128}))$`);
/** `example.com`, `*.example.com`, `example.com:8443`, `[::1]:80`, or `*` for every host. */
const HOST = /^(\*|(\*\.)?[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63}){0,16}|\[[0-9a-f:.]{2,64}\])(:\d{1,5})?$/;

const KNOWN = "clock, web-fetch, ask-user, sub-agent, mcp:<server>/<tool> or mcp:<server>/*";

const ToolFields = z
  .strictObject({
    name: z.string().regex(KEY, `there is no such tool: ${KNOWN}`),
    /** Whether a person must confirm each call. Default: depends on the tool. */
    confirm: z.boolean().optional(),
    /** How long one call may take, without the time in which it waits for a person. */
    timeout: duration({ min: "100ms", max: "1h" }).optional(),
    /** web-fetch: the hosts that it may request pages from. */
    hosts: z
      .array(z.string().regex(HOST, "a host, as in example.com, *.example.com or example.com:8443"))
      .max(256)
      .optional(),
    /** web-fetch: private and loopback addresses that are allowed. */
    networks: z
      .array(z.string().refine(isNetwork, "must be an address or a network, as in 10.0.0.0/8"))
      .max(64)
      .optional(),
    /** web-fetch: the largest part of a page that it reads. */
    max_bytes: z.int().min(1_024).max(16_777_216).optional(),
  })
  .superRefine(({ name, hosts, networks, max_bytes }, context) => {
    if (name === "web-fetch") {
      if (!hosts?.length)
        context.addIssue({ code: "custom", path: ["hosts"], message: "web-fetch needs the hosts that it may request" });
      return;
    }
    const stray = Object.entries({ hosts, networks, max_bytes }).find(([, value]) => value !== undefined)?.[0];
    if (stray) context.addIssue({ code: "custom", path: [stray], message: "is allowed with web-fetch only" });
  });

/** A key alone, or a key with limits. */
export const ToolEntry = z.preprocess((entry) => (typeof entry === "string" ? { name: entry } : entry), ToolFields);
export type ToolEntry = z.infer<typeof ToolFields>;

/** The name of a mode. */
/** A choice among the tools of an agent. Its sessions begin in the first mode. */
export const AgentMode = z.strictObject({
  name: ModeName,
  /** Keys of `tools` of the agent. */
  tools: z.array(z.string().min(1).max(256)).max(64).default([]),
  /** Added to the agent's instructions. */
  instructions: z.string().min(1).max(32_768).optional(),
});
export type AgentMode = z.infer<typeof AgentMode>;

const HEADER = /^[A-Za-z0-9-]{1,64}$/;

/** An MCP server: a program (`command`) or an address (`url`). */
export const McpServer = z
  .strictObject({
    name: z.string().regex(new RegExp(`^${SERVER_NAME}$`), "1 to 32 of a-z 0-9 _ -"),
    command: z.string().min(1).max(4_096).optional(),
    args: program.args,
    cwd: program.cwd,
    env: program.env,
    set: program.set,
    run_as: program.run_as,
    url: z.url({ protocol: /^https?$/ }).optional(),
    /** Headers with values from environment variables: `Authorization: MY_TOKEN` sends the value of MY_TOKEN. */
    headers_env: z.record(z.string().regex(HEADER, "the name of a header"), variableName).default({}),
    connect_timeout: duration({ min: "100ms", max: "10m" }).default(10_000),
  })
  .refine(({ command, url }) => (command === undefined) !== (url === undefined), {
    path: ["name"],
    message: "needs either a command or a url",
  });
export type McpServer = z.infer<typeof McpServer>;
