import { Fragment, type ReactNode, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { SessionMessage, ToolUse } from "../../src/client/live/live-session.ts";
import type { LogLine } from "../../src/protocol/message.ts";
import type { Session } from "../../src/protocol/session.ts";
import { useClient } from "../../src/react/provider.ts";
import { type CallNode, callTree, itemsOf, keyOf } from "../log/conversation-log.ts";
import { useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/moment-text.ts";
import { isExternal } from "../parts/external-agent.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { Markdown } from "./markdown.tsx";
import styles from "./session.module.css";
import { Summary } from "./summaries.tsx";

interface Props {
  messages: readonly SessionMessage[];
  toolUses: readonly ToolUse[];
  session: Session;
  onOlder?: (() => void) | undefined;
}

/** Nearer to the end than this, in px, a reader wants to stay there. */
const AT_END_PX = 48;

export function Conversation({ messages, toolUses, session, onOlder }: Props) {
  const { say } = useWords();
  const box = useRef<HTMLElement>(null);
  const isAtEnd = useRef(true);
  const tree = useMemo(() => callTree(itemsOf({ messages, toolUses })), [messages, toolUses]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was added is below.
  useLayoutEffect(() => {
    if (isAtEnd.current) box.current!.scrollTop = box.current!.scrollHeight;
  }, [messages, toolUses]);
  return (
    <section
      ref={box}
      className={styles["messages"]}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
      tabIndex={0}
      aria-label={say("session.messages")}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < AT_END_PX;
      }}
    >
      {onOlder && (
        <button type="button" onClick={onOlder}>
          {say("session.older")}
        </button>
      )}
      {tree.length === 0 && <p className={styles["quiet"]}>{say("session.silent")}</p>}
      <Nodes nodes={tree} session={session} />
    </section>
  );
}

function Nodes({ nodes, session }: { nodes: readonly CallNode[]; session: Session }): ReactNode {
  return nodes.map((node) => {
    if (node.kind === "call") return <Call key={node.key} call={node} session={session} />;
    const { item } = node;
    return (
      <Fragment key={keyOf(item)}>
        {item.kind === "tool" ? (
          <Tool use={item.use} />
        ) : item.message.summary ? (
          <Summary message={item.message} />
        ) : (
          <MessageRow message={item.message} session={session} />
        )}
      </Fragment>
    );
  });
}

/** What a sub-agent said, folded to one line with its name and its last words. */
function Call({ call, session }: { call: CallNode & { kind: "call" }; session: Session }) {
  const { agentName } = useHere();
  return (
    <details className={styles["call"]}>
      <summary>
        ↳ <b>{agentName(call.name)}</b> <span>{lastWords(call.nodes)}</span>
      </summary>
      <Nodes nodes={call.nodes} session={session} />
    </details>
  );
}

function lastWords(nodes: readonly CallNode[]): string {
  const last = nodes.at(-1);
  if (!last) return "";
  if (last.kind === "call") return lastWords(last.nodes);
  return last.item.kind === "message" ? last.item.message.content : (last.item.use.result?.content ?? "");
}

function MessageRow({ message, session }: { message: SessionMessage; session: Session }) {
  const { say, language } = useWords();
  const client = useClient();
  const { agents, agentName, isLive } = useHere();
  const { act, refusal, isBusy } = useAct();
  const { id, role, content, reasoning, isStreaming, status, createdAt, agent, errorMessage, finishReason, images } =
    message;
  const isUser = role === "user";
  const isMine = isUser && isLive && session.state !== "archived" && !isExternal(agents, session);
  const who = isUser ? say("session.user") : agentName(agent?.name ?? session.agentId);
  return (
    <article className={styles["message"]} data-role={role} aria-label={who}>
      <header>
        <b>{who}</b> <time dateTime={new Date(createdAt).toISOString()}>{clockOf(createdAt, language)}</time>
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
      {isUser ? <p className={styles["text"]}>{content}</p> : <Markdown text={content} isStreaming={isStreaming} />}
      {finishReason && <p className={styles["unfinished"]}>{say(`finish.${finishReason}`)}</p>}
      {errorMessage && <p className={styles["error"]}>{errorMessage}</p>}
      <footer>
        <button type="button" onClick={() => void act(() => navigator.clipboard.writeText(content))}>
          {say("session.copy")}
        </button>
        {isMine && status !== "queued" && (
          <button type="button" disabled={isBusy} onClick={() => void act(() => client.resendMessage(session.id, id))}>
            {say("session.again")}
          </button>
        )}
        {isMine && status === "queued" && (
          <button
            type="button"
            disabled={isBusy}
            onClick={() => void act(() => client.withdrawMessage(session.id, id))}
          >
            {say("session.withdraw")}
          </button>
        )}
        {!isUser && isLive && <Logs sessionId={session.id} messageId={id} />}
      </footer>
      {refusal && <p role="alert">{refusal.text}</p>}
    </article>
  );
}

/** What an agent's program wrote while it worked on a message; read when it is asked for. */
function Logs({ sessionId, messageId }: { sessionId: string; messageId: string }) {
  const { say } = useWords();
  const client = useClient();
  const [lines, setLines] = useState<readonly LogLine[]>();
  const { act, refusal, isBusy } = useAct();
  const read = () =>
    act(async () => {
      const after = lines?.at(-1)?.id;
      const page = await client.listLogs(sessionId, messageId, { limit: 1_000, ...(after !== undefined && { after }) });
      setLines([...(lines ?? []), ...page.logs]);
    });
  return (
    <>
      <button type="button" disabled={isBusy} onClick={() => void read()}>
        {say("session.logs")}
      </button>
      {refusal && <span role="alert">{refusal.text}</span>}
      {lines?.length === 0 && <span className={styles["quiet"]}>{say("session.nologs")}</span>}
      {lines && lines.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
        <pre className={styles["logs"]} tabIndex={0}>
          {lines.map(({ id, stream, text }) => (
            <span key={id} data-stream={stream}>{`${text}\n`}</span>
          ))}
        </pre>
      )}
    </>
  );
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

/** JSON with its lines; what is no JSON as it is. */
export function Arguments({ text }: { text: string }) {
  return <pre>{pretty(text)}</pre>;
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}
