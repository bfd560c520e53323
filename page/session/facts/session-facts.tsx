import type { ReactNode } from "react";
import type { Session } from "../../../src/protocol/session.ts";
import { useHere } from "../../moment/here.tsx";
import { whenOf } from "../../moment/time-text.ts";
import { CopyButton } from "../../parts/commands/copy-button.tsx";
import { Outcome } from "../../parts/commands/outcome.tsx";
import { lookOf } from "../../parts/look.ts";
import { Sheet } from "../../parts/screen/sheet.tsx";
import { useMedia } from "../../parts/screen/use-media.ts";
import { StateSign } from "../../parts/state-sign.tsx";
import { useAct } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import { modesOf } from "../head/modes-of.ts";
import styles from "./facts.module.css";
import { SessionLog } from "./session-log.tsx";

interface Props {
  session: Session;
  /** On a narrow screen this is a sheet, which opens on request. */
  isOpen: boolean;
  onClose: () => void;
}

/** The details of a session beside its conversation: its state, its agent, its tokens, and its log. */
export function SessionFacts({ session, isOpen, onClose }: Props) {
  const { say } = useWords();
  const isNarrow = useMedia("(max-width: 1199px)");
  if (isNarrow && !isOpen) return undefined;
  const facts = (
    <section
      className={styles["facts"]}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
      tabIndex={0}
      aria-label={say("facts.title")}
    >
      <div>
        <State session={session} />
        <Agent session={session} />
        <Tokens session={session} />
        <Origin session={session} />
      </div>
      <SessionLog sessionId={session.id} />
    </section>
  );
  if (!isNarrow) return facts;
  return (
    <Sheet label={say("facts.title")} onClose={onClose}>
      {facts}
    </Sheet>
  );
}

/** A fact; nothing if it is unknown. */
function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (children === undefined || children === false || children === "") return undefined;
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function State({ session }: { session: Session }) {
  const { say, language } = useWords();
  const { linkTo } = useHere();
  const { id, state, activity, pausedBy, queuedAt, level, createdAt, lastActivityAt, messageCount } = session;
  return (
    <section aria-labelledby="facts-state">
      <h2 id="facts-state">{say("facts.state")}</h2>
      <p>
        <StateSign look={lookOf(session)} />
      </p>
      <dl>
        <Fact name={say("machine.title")}>
          <a href={linkTo("machine", { sessionId: id })}>
            <code>
              {state} · {activity}
            </code>
          </a>
        </Fact>
        <Fact name={say("facts.pausedby")}>{pausedBy && say(`pausedby.${pausedBy}`)}</Fact>
        <Fact name={say("facts.waits")}>{queuedAt !== undefined && whenOf(queuedAt, language)}</Fact>
        <Fact name={say("facts.asks")}>{session.schedule && whenOf(session.schedule.at, language)}</Fact>
        <Fact name={say("facts.every")}>{session.schedule?.every && <code>{session.schedule.every}</code>}</Fact>
        <Fact name={say("facts.begins")}>{session.schedule?.content}</Fact>
        <Fact name={say("facts.level")}>{level !== undefined && `${level} dB`}</Fact>
        <Fact name={say("facts.begun")}>{whenOf(createdAt, language)}</Fact>
        <Fact name={say("facts.active")}>{whenOf(lastActivityAt, language)}</Fact>
        <Fact name={say("session.messages")}>{messageCount}</Fact>
      </dl>
    </section>
  );
}

function Agent({ session }: { session: Session }) {
  const { say } = useWords();
  const { agents, agentName, isLive } = useHere();
  const { agentId, priority, interruptible } = session;
  const agent = agents.find(({ id }) => id === agentId);
  const mode = modesOf(agents, session, isLive)?.current;
  return (
    <section aria-labelledby="facts-agent">
      <h2 id="facts-agent">{say("facts.agent")}</h2>
      <p>
        <b>{agentName(agentId)}</b> {agent && !agent.available && <small>{say("agents.unavailable")}</small>}
      </p>
      {agent && agent.description !== "" && <p>{agent.description}</p>}
      <dl>
        <Fact name={say("decisions.priority")}>{priority}</Fact>
        <Fact name={say("facts.floor")}>{say(interruptible ? "agents.interruptible" : "agents.uninterruptible")}</Fact>
        <Fact name={say("session.mode")}>{mode}</Fact>
        <Fact name={say("facts.capabilities")}>{agent?.capabilities.join(", ")}</Fact>
      </dl>
    </section>
  );
}

function Tokens({ session: { tokenUsage } }: { session: Session }) {
  const { say, number } = useWords();
  const { used, breakdown } = tokenUsage;
  return (
    <section aria-labelledby="facts-tokens">
      <h2 id="facts-tokens">{say("facts.tokens")}</h2>
      <p>
        <b className={styles["number"]}>{number.format(used)}</b>
      </p>
      <dl>
        {(["input", "output", "cacheRead", "cacheCreation"] as const).map((kind) => (
          <Fact key={kind} name={say(`facts.${kind}`)}>
            {breakdown[kind] > 0 && (
              <>
                <span className={styles["bar"]} aria-hidden="true">
                  <span style={{ width: `${(100 * breakdown[kind]) / Math.max(used, breakdown[kind])}%` }} />
                </span>{" "}
                {number.format(breakdown[kind])}
              </>
            )}
          </Fact>
        ))}
      </dl>
    </section>
  );
}

function Origin({ session }: { session: Session }) {
  const { say } = useWords();
  const { linkTo, isLive } = useHere();
  const lastCommand = useAct();
  const { id, userId, zone, group, workspaceId, ownerId, origin, series, replacedBy } = session;
  const from = origin?.sessionId;
  return (
    <section aria-labelledby="facts-session">
      <h2 id="facts-session">{say("facts.session")}</h2>
      <dl>
        <Fact name={say("facts.id")}>
          <code>{id}</code> <CopyButton text={id} act={lastCommand.act} />
        </Fact>
        <Fact name={say("facts.user")}>{userId}</Fact>
        <Fact name={say("facts.zone")}>{zone}</Fact>
        <Fact name={say("facts.group")}>{group?.sessions.map((each) => each.zone ?? "—").join(", ")}</Fact>
        <Fact name={say("facts.workspace")}>{workspaceId}</Fact>
        <Fact name={say("facts.owner")}>{ownerId}</Fact>
        <Fact name={say("facts.origin")}>
          {origin && (
            <>
              {say(`origin.${origin.by}`)}{" "}
              {from !== undefined && isLive && <a href={linkTo("session", { sessionId: from })}>{from}</a>}
            </>
          )}
        </Fact>
        <Fact name={say("facts.series")}>
          {series !== undefined && <a href={linkTo("session", { sessionId: series })}>{series}</a>}
        </Fact>
        <Fact name={say("facts.replacedby")}>
          {replacedBy !== undefined && <a href={linkTo("session", { sessionId: replacedBy })}>{replacedBy}</a>}
        </Fact>
      </dl>
      <Outcome of={lastCommand} />
    </section>
  );
}
