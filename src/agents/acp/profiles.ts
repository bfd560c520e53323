import type { AcpAdapter } from "../../config/catalog/adapter.ts";
import type { ProgramEntry } from "../process/program.ts";

/** The differences between coding agents with the Agent Client Protocol. An entry's own keys take precedence. */
interface Profile {
  readonly command: string;
  readonly args: readonly string[];
  /** Variables with values that are not secret. */
  readonly set?: Readonly<Record<string, string>>;
  /** Variables that get a random value per process: passwords of servers that the program opens for itself. */
  readonly random?: readonly string[];
  /** The variable that sets the mode. Absent: the protocol sets it. */
  readonly modeVariable?: string;
  /** The mode if the entry names none. Absent: the agent's own default. */
  readonly mode?: string;
  /** Whether text without a message id is a warning of the program, which is logged. */
  readonly hasMessageIds?: boolean;
}

const CLAUDE: Profile = {
  command: "claude-agent-acp",
  args: [],
  set: {
    // Its retries are silent for more than 90 s.
    CLAUDE_CODE_MAX_RETRIES: "1",
    // Otherwise the agent hides our tools behind its own tool search.
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
    // Its default mode asks a model for permission, and never a person.
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
    // Without the first variable it starts itself a second time; without the second it trusts no folder.
    set: { GEMINI_CLI_NO_RELAUNCH: "true", GEMINI_CLI_TRUST_WORKSPACE: "true" },
  },
  opencode: {
    command: "opencode",
    args: ["acp"],
    // It listens on a loopback port, and accepts every client unless a password is set.
    random: ["OPENCODE_SERVER_PASSWORD"],
    hasMessageIds: true,
  },
  // Its default mode lets a model decide which actions need permission.
  qwen: { command: "qwen", args: ["--acp"], mode: "default" },
  custom: { command: "", args: [] },
};

/** The program of an entry: the profile's, with the entry's overrides and additions. */
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
    run_as: adapter.run_as,
  };
}

/** The mode to set by the protocol; undefined if none is set. */
export function protocolModeOf(adapter: AcpAdapter): string | undefined {
  return PROFILES[adapter.profile].modeVariable === undefined ? modeOf(adapter) : undefined;
}

function modeOf({ mode, profile }: AcpAdapter): string | undefined {
  return mode ?? PROFILES[profile].mode;
}
