/**
 * A second judge of claims: it reads the events of a floor's log, as readers get them, and nothing else. It shares no
 * code with `interlock prove`, so that both do not have the same fault.
 */
export interface JudgedEvent {
  readonly type: string;
  readonly sessionId?: string | undefined;
  readonly data: unknown;
}

export interface JudgedClaim {
  readonly name: string;
  readonly never: {
    readonly rejected?: string;
    readonly while_heard?: string;
    readonly silenced?: string;
    readonly by?: string;
  };
}

interface Change {
  from: string;
  to: string;
  by?: { agentId: string };
}

const isHeard = (state: string): boolean => state.startsWith("active") || state.startsWith("ducked");

/** The names of the claims that the log breaks, and `two in front` if two sessions are active at once. */
export function judge(log: readonly JudgedEvent[], claims: readonly JudgedClaim[]): Set<string> {
  const broken = new Set<string>();
  const agents = new Map<string, string>();
  const heard = new Set<string>();
  let front: string | undefined;
  const blame = (isBroken: (never: JudgedClaim["never"]) => boolean) => {
    for (const { name, never } of claims) if (isBroken(never)) broken.add(name);
  };
  for (const { type, sessionId = "", data } of log) {
    if (type === "session_created") agents.set(sessionId, (data as { agentId: string }).agentId);
    if (type === "arbitration") {
      const { outcome, challenger } = data as { outcome: string; challenger: { agentId: string } };
      const others = [...heard].map((id) => agents.get(id)!);
      if (outcome === "rejected")
        blame(
          ({ rejected, while_heard }) =>
            rejected === challenger.agentId && (while_heard === undefined || others.includes(while_heard)),
        );
    }
    if (type !== "session_transition") continue;
    const { to, by } = data as Change;
    if (heard.has(sessionId) && !isHeard(to)) {
      const agent = agents.get(sessionId);
      if (by) blame(({ silenced, by: cause }) => silenced === agent && (cause === undefined || cause === by.agentId));
    }
    if (isHeard(to)) heard.add(sessionId);
    else heard.delete(sessionId);
    if (to.startsWith("active")) {
      if (front !== undefined && front !== sessionId) broken.add("two in front");
      front = sessionId;
    } else if (front === sessionId) front = undefined;
  }
  return broken;
}
