import type { AcpAdapter } from "../../config/catalog/adapter.ts";
import type { ProgramEntry } from "../process/program.ts";

/** What differs between coding agents that speak the Agent Client Protocol. An entry's own keys go before it. */
interface Profile {
  readonly command: string;
  readonly args: readonly string[];
  /** Variables with values that are not secret. */
  readonly set?: Readonly<Record<string, string>>;
  /** Variables that get a random value for each process: passwords of servers that the program opens for itself. */
  readonly random?: readonly string[];
  /** The variable that takes the mode; left out: the mode is set in the protocol. */
  readonly modeVariable?: string;
  /** The mode where the entry names none; left out: the agent's own. */
  readonly mode?: string;
  /** Text that belongs to no message is a warning of the program: it is logged. */
  readonly hasMessageIds?: boolean;
}

const CLAUDE: Profile = {
  command: "claude-agent-acp",
  args: [],
  set: {
    // Its own retries are silent for more than 90 s.
    CLAUDE_CODE_MAX_RETRIES: "1",
    // Else our tools hide behind a search of its own.
    ENABLE_TOOL_SEARCH: "false",
  },
  hasMessageIds: true,
};

const withBackEnd = (url: string): Profile => ({ ...CLAUDE, set: { ...CLAUDE.set, ANTHROPIC_BASE_URL: url } });

export const PROFILES: Readonly<Record<AcpAdapter["profile"], Profile>> = {
  codex: {
    command: "codex-acp",
    args: [],
    modeVariable: "INITIAL_AGENT_MODE",
    // Its own default asks a model for permission, never a person.
    mode: "workspace-write",
    hasMessageIds: true,
  },
  "claude-code": CLAUDE,
  "claude-code-glm": withBackEnd("https://open.bigmodel.cn/api/anthropic"),
  "claude-code-kimi": withBackEnd("https://api.moonshot.cn/anthropic"),
  "claude-code-minimax": withBackEnd("https://api.minimaxi.com/anthropic"),
  kimi: { command: "kimi", args: ["acp"] },
  gemini: {
    command: "gemini",
    args: ["--acp"],
    // Without the first it starts itself a second time, without the other it trusts no folder.
    set: { GEMINI_CLI_NO_RELAUNCH: "true", GEMINI_CLI_TRUST_WORKSPACE: "true" },
  },
  opencode: {
    command: "opencode",
    args: ["acp"],
    // It listens on a port of the loopback, and accepts every client unless it has a password.
    random: ["OPENCODE_SERVER_PASSWORD"],
    hasMessageIds: true,
  },
  // Its own default lets a model decide what needs permission.
  qwen: { command: "qwen", args: ["--acp"], mode: "default" },
  custom: { command: "", args: [] },
};

/** The program of an entry: the profile's, with what the entry says instead or beside. */
export function programOf(adapter: AcpAdapter): ProgramEntry {
  const profile = PROFILES[adapter.profile];
  const mode = modeOf(adapter);
  const modeSetting = profile.modeVariable !== undefined && mode !== undefined ? { [profile.modeVariable]: mode } : {};
  return {
    command: adapter.command ?? profile.command,
    args: adapter.args ?? profile.args,
    cwd: adapter.cwd,
    env: adapter.env,
    set: { ...profile.set, ...modeSetting, ...adapter.set },
  };
}

/** The mode to be set in the protocol; undefined where none is. */
export function protocolModeOf(adapter: AcpAdapter): string | undefined {
  return PROFILES[adapter.profile].modeVariable === undefined ? modeOf(adapter) : undefined;
}

function modeOf({ mode, profile }: AcpAdapter): string | undefined {
  return mode ?? PROFILES[profile].mode;
}
