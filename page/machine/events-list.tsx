import { type FormEvent, useState } from "react";
import type { Client } from "../../src/client/client.ts";
import { useClient } from "../../src/react/provider.ts";
import { useHere } from "../moment/here.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { Fold } from "../parts/fold.tsx";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import styles from "./machine.module.css";
import type { Acceptance } from "./standing.ts";

type Send = (client: Client, id: string, input: string) => Promise<unknown>;

/** Commands that need nothing more. */
const PLAIN: Readonly<Record<string, Send>> = {
  "session.activate": (client, id) => client.activateSession(id),
  "session.pause": (client, id) => client.pauseSession(id),
  "session.resume": (client, id) => client.resumeSession(id),
  "session.archive": (client, id) => client.archiveSession(id),
  "session.stop": (client, id) => client.stopSession(id),
  "session.abort": (client, sessionId) => client.send({ type: "abort", sessionId } as never),
  "session.heartbeat": (client, sessionId) => client.send({ type: "heartbeat", sessionId } as never),
};
/** Commands with a text, and its longest length. */
const WITH_TEXT: Readonly<Record<string, { max: number; send: Send }>> = {
  "session.chat": {
    max: 262_144,
    send: (client, sessionId, content) => client.send({ type: "chat", sessionId, content } as never),
  },
  "session.rename": { max: 256, send: (client, id, title) => client.renameSession(id, title) },
};
/** Commands that refer to something in the conversation. */
const IN_CONVERSATION: ReadonlySet<string> = new Set(["session.withdraw", "session.answer"]);

interface Props {
  sessionId: string;
  accepted: readonly Acceptance[];
  refused: readonly { event: string; code: string }[];
}

/** What the session accepts in its states: commands to send, what others send it, and what it refuses. */
export function EventsList({ sessionId, accepted, refused }: Props) {
  const { say } = useWords();
  const commands = accepted.filter(({ event }) => event.startsWith("session."));
  const others = accepted.filter(({ event }) => !event.startsWith("session."));
  return (
    <section className={styles["events"]} aria-labelledby="accepts">
      <h2 id="accepts">{say("machine.accepts")}</h2>
      <ul>
        {commands.map((each) => (
          <li key={each.event}>
            <CommandRow sessionId={sessionId} {...each} />
          </li>
        ))}
      </ul>
      {commands.length === 0 && <p className={styles["quiet"]}>{say("machine.nocommands")}</p>}
      {others.length > 0 && (
        <Fold summary={say("machine.others", { count: others.length })}>
          {() => (
            <ul className={styles["others"]}>
              {others.map(({ event, to }) => (
                <li key={event}>
                  <code>{event}</code> <Leads to={to} />
                </li>
              ))}
            </ul>
          )}
        </Fold>
      )}
      {refused.length > 0 && (
        <Fold summary={say("machine.refuses", { count: refused.length })}>
          {() => (
            <ul className={styles["others"]}>
              {refused.map(({ event, code }) => (
                <li key={event}>
                  <code>{event}</code> <small>✕ {code}</small>
                </li>
              ))}
            </ul>
          )}
        </Fold>
      )}
    </section>
  );
}

const Leads = ({ to }: { to: readonly string[] }) => <small>{to.length === 0 ? "↻" : `→ ${to.join(", ")}`}</small>;

function CommandRow({ sessionId, event, to }: Acceptance & { sessionId: string }) {
  const { say } = useWords();
  const client = useClient();
  const { isLive, agents, linkTo } = useHere();
  const given = useAct();
  const { act, isBusy } = given;
  const [input, setInput] = useState<string>();
  const disabled = !isLive || isBusy;
  const plain = PLAIN[event];
  const text = WITH_TEXT[event];
  const send = async (command: Send, value = "") => {
    if (await act(() => command(client, sessionId, value))) setInput(undefined);
  };
  const submit = (submitted: FormEvent) => {
    submitted.preventDefault();
    const value = (input ?? "").trim();
    if (text && value !== "") void send(text.send, value);
    else if (event === "session.switch_agent" && value !== "") {
      void send((by, id) => by.send({ type: "switch_agent", sessionId: id, agentId: value } as never));
    } else if (event === "session.delete") void send((by, id) => by.deleteSession(id));
  };
  return (
    <>
      <div className={styles["command"]}>
        {IN_CONVERSATION.has(event) ? (
          <a href={linkTo("session", { sessionId })} title={say("machine.inconversation")}>
            <code>{event}</code>
          </a>
        ) : (
          <button
            type="button"
            disabled={disabled}
            aria-expanded={plain ? undefined : input !== undefined}
            onClick={() => (plain ? void send(plain) : setInput(input === undefined ? "" : undefined))}
          >
            <code>{event}</code>
          </button>
        )}
        <Leads to={to} />
      </div>
      {input !== undefined && (
        <form className={styles["input"]} onSubmit={submit}>
          {text && (
            <input
              aria-label={event}
              value={input}
              maxLength={text.max}
              onChange={({ target }) => setInput(target.value)}
            />
          )}
          {event === "session.switch_agent" && (
            <select aria-label={event} value={input} onChange={({ target }) => setInput(target.value)}>
              <option value="">{say("agents.title")}…</option>
              {agents.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          )}
          {event === "session.delete" && <span>{say("machine.reallydelete")}</span>}
          <button type="submit" disabled={disabled || (event !== "session.delete" && input.trim() === "")}>
            {say("machine.send")}
          </button>
        </form>
      )}
      <Outcome of={given} />
    </>
  );
}
