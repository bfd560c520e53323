import { Fragment, type ReactNode, useMemo } from "react";
import { argumentsText } from "../../src/client/arguments-text.ts";
import type { SessionMessage, ToolUse } from "../../src/client/conversation-reader.ts";
import { heardUnits } from "../../src/protocol/heard.ts";
import type { Session } from "../../src/protocol/session.ts";
import { type CallNode, callTree, itemsOf, messageKeyOf } from "../log/conversation-log.ts";
import { useHere } from "../moment/here.tsx";
import { whenOf } from "../moment/time-text.ts";
import { failureText } from "../words/failure-text.ts";
import { useWords } from "../words/words.tsx";
import { turnsFrom } from "./copies/turns-from.ts";
import { Markdown } from "./markdown.tsx";
import { MessageActions, type TurnsFrom } from "./message-actions.tsx";
import styles from "./session.module.css";
import { FoldedSummary } from "./summaries.tsx";
import { useEnd } from "./use-end.ts";

interface Props {
  messages: readonly SessionMessage[];
  toolUses: readonly ToolUse[];
  session: Session;
  /** The number of messages before these that are not in the log. */
  copied: number;
  onOlder?: (() => void) | undefined;
}

export function Conversation({ messages, toolUses, session, copied, onOlder }: Props) {
  const { say } = useWords();
  const { box, content, onScroll } = useEnd();
  const heard = useMemo(() => heardOf(messages, session), [messages, session]);
  const tree = useMemo(() => callTree(itemsOf({ messages, toolUses })), [messages, toolUses]);
  return (
    <section
      ref={box}
      className={styles["messages"]}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
      tabIndex={0}
      aria-label={say("session.messages")}
      onScroll={onScroll}
    >
      <div ref={content}>
        {onOlder && (
          <button type="button" onClick={onOlder}>
            {say("session.older")}
          </button>
        )}
        {copied > 0 && <p className={styles["quiet"]}>{say("session.unlogged", { count: copied })}</p>}
        {tree.length === 0 && copied === 0 && <p className={styles["quiet"]}>{say("session.silent")}</p>}
        <Nodes nodes={tree} session={session} heard={heard} turnsFrom={(id) => turnsFrom(messages, id)} />
      </div>
    </section>
  );
}

interface NodesProps {
  nodes: readonly CallNode[];
  session: Session;
  heard: ReadonlyMap<string, number>;
  turnsFrom: TurnsFrom;
}

function Nodes({ nodes, session, heard, turnsFrom }: NodesProps): ReactNode {
  return nodes.map((node) => {
    if (node.kind === "call")
      return <Call key={node.key} call={node} session={session} heard={heard} turnsFrom={turnsFrom} />;
    const { item } = node;
    return (
      <Fragment key={messageKeyOf(item)}>
        {item.kind === "tool" ? (
          <Tool use={item.use} />
        ) : item.message.summary ? (
          <FoldedSummary message={item.message} />
        ) : (
          <MessageRow
            message={item.message}
            heardUnits={heard.get(item.message.id)}
            session={session}
            turnsFrom={turnsFrom}
          />
        )}
      </Fragment>
    );
  });
}

/** A sub-agent's messages, folded to one line with its name and its last text. */
function Call({ call, ...rest }: Omit<NodesProps, "nodes"> & { call: CallNode & { kind: "call" } }) {
  const { agentName } = useHere();
  return (
    <details className={styles["call"]}>
      <summary>
        ↳ <b>{agentName(call.name)}</b> <span>{lastWords(call.nodes)}</span>
      </summary>
      <Nodes nodes={call.nodes} {...rest} />
    </details>
  );
}

function lastWords(nodes: readonly CallNode[]): string {
  const last = nodes.at(-1);
  if (!last) return "";
  if (last.kind === "call") return lastWords(last.nodes);
  return last.item.kind === "message" ? last.item.message.content : (last.item.use.result?.content ?? "");
}

interface RowProps {
  message: SessionMessage;
  /** Undefined: all of it was heard. */
  heardUnits: number | undefined;
  session: Session;
  turnsFrom: TurnsFrom;
}

function MessageRow({ message, heardUnits: heard, session, turnsFrom }: RowProps) {
  const { say, language } = useWords();
  const { agentName } = useHere();
  const {
    role,
    content,
    reasoning,
    isStreaming,
    status,
    createdAt,
    agent,
    errorCode,
    errorMessage,
    finishReason,
    images,
  } = message;
  const isUser = role === "user";
  const playedText = content.slice(0, heard);
  const who = isUser ? say("session.user") : agentName(agent?.name ?? session.agentId);
  return (
    <article className={styles["message"]} data-role={role} aria-label={who}>
      <header>
        <b>{who}</b> <time dateTime={new Date(createdAt).toISOString()}>{whenOf(createdAt, language)}</time>
        {status !== "success" && <span data-status={status}>{say(`message.${status}`)}</span>}
      </header>
      {reasoning !== "" && (
        <details className={styles["reasoning"]}>
          <summary>{say("session.reasoning")}</summary>
          <p>{reasoning}</p>
        </details>
      )}
      {images?.map(({ hash }) => (
        <img
          key={hash}
          alt={say("session.image")}
          src={`./session/${encodeURIComponent(session.id)}/images/${encodeURIComponent(hash)}`}
        />
      ))}
      {isUser ? <p className={styles["text"]}>{content}</p> : <Markdown text={playedText} isStreaming={isStreaming} />}
      {playedText !== content && (
        <div className={styles["unheard"]}>
          <span className={styles["unfinished"]}>{say("message.unheard")}</span>
          <Markdown text={content.slice(playedText.length)} isStreaming={false} />
        </div>
      )}
      {finishReason && <p className={styles["unfinished"]}>{say(`finish.${finishReason}`)}</p>}
      {/* The newest failure has its line below the conversation. */}
      {errorMessage && session.failure?.runId !== message.runId && (
        <p className={styles["error"]}>{failureText({ code: errorCode, message: errorMessage }, say)}</p>
      )}
      <MessageActions message={message} session={session} turnsFrom={turnsFrom} />
    </article>
  );
}

/**
 * How much was heard of the messages that were not heard whole, by their ids, in UTF-16 units. Speech that may go on
 * counts as heard.
 */
function heardOf(messages: readonly SessionMessage[], { played, activity }: Session): ReadonlyMap<string, number> {
  const heard = heardUnits(messages);
  const spoken = played && messages.find(({ id }) => id === played.messageId)?.runId;
  const isOver = activity === "idle" && messages.findLast(({ runId }) => runId === spoken)?.status === "interrupted";
  const goesOn = isOver ? undefined : spoken;
  const cut = messages.flatMap(({ id, content, isStreaming, runId }, index): [string, number][] => {
    const mayBeHeard = isStreaming || (goesOn !== undefined && runId === goesOn);
    return mayBeHeard || heard[index]! >= content.length ? [] : [[id, heard[index]!]];
  });
  return new Map(cut);
}

function Tool({ use: { data, result } }: { use: ToolUse }) {
  const { say } = useWords();
  const state = result ? result.status : "running";
  return (
    <details className={styles["tool"]} data-state={state}>
      <summary>
        <span aria-hidden="true">{state === "success" ? "✓" : state === "error" ? "✕" : "…"}</span>{" "}
        <code>{data.function.name}</code> <span>{say(`tool.${state}`)}</span>
      </summary>
      <Arguments text={data.function.arguments} />
      {result && <pre>{result.content}</pre>}
    </details>
  );
}

/** JSON with line breaks; other text unchanged. */
export function Arguments({ text }: { text: string }) {
  return <pre>{argumentsText(text)}</pre>;
}
