import { type FormEvent, useState } from "react";
import type { Client } from "../../src/client/client.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { questionToDelete } from "../parts/commands/session-controls.tsx";
import { Sure } from "../parts/commands/sure.tsx";
import { Fold } from "../parts/fold.tsx";
import { useAct } from "../parts/use-act.ts";
import { modesOf } from "../session/head/modes-of.ts";
import type { WordKey } from "../words/en.ts";
import { useWords } from "../words/words.tsx";
import styles from "./machine.module.css";
import type { Acceptance } from "./machine-state.ts";

type Send = (client: Client, id: string, input: string) => Promise<unknown>;

/** Commands without arguments. */
const PLAIN: Readonly<Record<string, Send>> = {
  "session.activate": (client, id) => client.activateSession(id),
  "session.pause": (client, id) => client.pauseSession(id),
  "session.resume": (client, id) => client.resumeSession(id),
  "session.archive": (client, id) => client.archiveSession(id),
  "session.stop": (client, id) => client.stopSession(id),
  "session.summarize": (client, id) => client.summarizeSession(id),
  "session.heartbeat": (client, sessionId) => client.send({ type: "heartbeat", sessionId }),
};
/** Commands with a text, and its maximum length. */
const WITH_TEXT: Readonly<Record<string, { max: number; send: Send }>> = {
  "session.chat": {
    max: 262_144,
    send: (client, sessionId, content) => client.send({ type: "chat", sessionId, content }),
  },
  "session.update title": { max: 256, send: (client, id, title) => client.changeSession(id, { title }) },
};
/** Commands with a choice. */
const WITH_CHOICE: Readonly<Record<string, Send>> = {
  "session.switch_agent": (client, sessionId, agentId) => client.send({ type: "switch_agent", sessionId, agentId }),
  "session.update mode": (client, id, mode) => client.changeSession(id, { mode }),
};
/** Commands that lose data, with the question that is asked first. */
const WITH_QUESTION: Readonly<Record<string, { question: (session: Session) => WordKey; send: Send }>> = {
  "session.abort": {
    question: () => "session.reallyabort",
    send: (client, sessionId) => client.send({ type: "abort", sessionId }),
  },
  "session.delete": { question: questionToDelete, send: (client, id) => client.deleteSession(id) },
};
/** The page's keyboard shortcuts for commands. */
const KEYS: Readonly<Record<string, string>> = { "session.pause": "P", "session.resume": "R", "session.abort": "X" };
/** Commands about something in the conversation. */
const IN_CONVERSATION: ReadonlySet<string> = new Set(["session.withdraw", "session.answer"]);

interface Props {
  session: Session;
  accepted: readonly Acceptance[];
  refused: readonly { event: string; code: string }[];
}

/** The events of a session in its current states: commands that can be sent, events from others, and refused events. */
export function EventsList({ session, accepted, refused }: Props) {
  const { say } = useWords();
  const commands = accepted.filter(({ event }) => event.startsWith("session.")).flatMap(settingsApart);
  const others = accepted.filter(({ event }) => !event.startsWith("session."));
  return (
    <section className={styles["events"]} aria-labelledby="accepts">
      <h2 id="accepts">{say("machine.accepts")}</h2>
      <ul>
        {commands.map((each) => (
          <li key={each.event}>
            <CommandRow session={session} {...each} />
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

/** The command that changes settings, once for each of them. */
const settingsApart = ({ event, to }: Acceptance): Acceptance[] =>
  event === "session.update" ? ["title", "mode"].map((name) => ({ event: `${event} ${name}`, to })) : [{ event, to }];

const Leads = ({ to }: { to: readonly string[] }) => <small>{to.length === 0 ? "↻" : `→ ${to.join(", ")}`}</small>;

const modeNames = (...of: Parameters<typeof modesOf>): readonly string[] => modesOf(...of)?.names ?? [];

function CommandRow({ session, event, to }: Acceptance & { session: Session }) {
  const { say } = useWords();
  const client = useClient();
  const { isLive, agents, linkTo } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const [input, setInput] = useState<string>();
  const { id } = session;
  const disabled = !isLive || isBusy;
  const plain = PLAIN[event];
  const text = WITH_TEXT[event];
  const choice = WITH_CHOICE[event];
  const question = WITH_QUESTION[event];
  const send = async (command: Send, value = "") => {
    if (
      await act(
        () => command(client, id, value),
        () => say("told.done", { command: event }),
      )
    )
      setInput(undefined);
  };
  const submit = (submitted: FormEvent) => {
    submitted.preventDefault();
    const value = (input ?? "").trim();
    const command = text?.send ?? choice;
    if (command && value !== "") void send(command, value);
  };
  const modes = event === "session.update mode" ? modeNames(agents, session, isLive) : undefined;
  const options = modes ? modes.map((name) => ({ id: name, name })) : agents;
  return (
    <>
      <div className={styles["command"]}>
        {IN_CONVERSATION.has(event) ? (
          <a data-row href={linkTo("session", { sessionId: id })} title={say("machine.inconversation")}>
            <code>{event}</code>
          </a>
        ) : (
          <button
            type="button"
            data-row
            data-key={KEYS[event]}
            disabled={disabled}
            aria-expanded={plain ? undefined : input !== undefined}
            onClick={() => (plain ? void send(plain) : setInput(input === undefined ? "" : undefined))}
          >
            <code>{event}</code>
          </button>
        )}
        <Leads to={to} />
      </div>
      {input !== undefined && question && (
        <Sure
          question={say(question.question(session))}
          yes={say("machine.send")}
          disabled={disabled}
          onYes={() => void send(question.send)}
          onNo={() => setInput(undefined)}
        />
      )}
      {input !== undefined && modes?.length === 0 && <p className={styles["quiet"]}>{say("machine.nomodes")}</p>}
      {input !== undefined && (text || (choice && options.length > 0)) && (
        <form className={styles["input"]} onSubmit={submit}>
          {text && (
            <input
              aria-label={event}
              value={input}
              maxLength={text.max}
              onChange={({ target }) => setInput(target.value)}
            />
          )}
          {choice && (
            <select aria-label={event} value={input} onChange={({ target }) => setInput(target.value)}>
              <option value="">{say(modes ? "session.mode" : "agents.title")}…</option>
              {options.map((option) => (
                <option key={option.id} value={option.id}>
                  {option.name}
                </option>
              ))}
            </select>
          )}
          <button type="submit" disabled={disabled || input.trim() === ""}>
            {say("machine.send")}
          </button>
        </form>
      )}
      <Outcome of={lastCommand} />
    </>
  );
}
