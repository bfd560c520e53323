import { ClientError, type PendingInteraction, type SessionMessage } from "interlock/client";
import { useClient, useSession } from "interlock/react";
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";

/** This product's words for what may be refused. Any other code has the server's sentence. */
const REFUSALS: Partial<Record<string, string>> = {
  agent_busy: "One moment: the answer before is still being written. Stop it, or wait.",
  too_many_requests: "That was a lot at once. Please try again in a moment.",
  unreachable: "Nothing answers at the moment. Your message is still here.",
};
/** And for what an agent may ask to do, by the names of its tools. */
const CONSENTS: Partial<Record<string, string>> = { book_table: "Shall I book this table?" };

/** Why a request was refused. If the arbiter decided, its sentence is in the user's language. */
function sentenceOf(error: unknown): string {
  if (!(error instanceof ClientError)) return String(error);
  return error.facts.decision?.say ?? REFUSALS[error.code] ?? error.message;
}

/** The conversation with one agent. All that it shows comes from the session's stream, also what this tab sent. */
export function Conversation({ id, name }: { id: string; name: string }) {
  const client = useClient();
  const { messages, interactions, session, status, live } = useSession(id);
  const [refusal, setRefusal] = useState<string>();
  const [text, setText] = useState("");
  const end = useRef<HTMLDivElement>(null);
  const last = messages.at(-1);
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever there is more to see.
  useEffect(() => {
    void end.current?.scrollIntoView({ block: "end" });
  }, [last?.id, last?.content, interactions.length]);

  /** Run a command. @returns whether it was accepted */
  const run = async (command: () => Promise<unknown>): Promise<boolean> => {
    setRefusal(undefined);
    try {
      await command();
      return true;
    } catch (error) {
      setRefusal(sentenceOf(error));
      return false;
    }
  };
  const send = async (event: FormEvent) => {
    event.preventDefault();
    const words = text.trim();
    // What was refused stays in its place.
    if (words !== "" && (await run(() => live.send(words)))) setText("");
  };
  const sendOnEnter = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    event.currentTarget.form?.requestSubmit();
  };
  const isBusy = session?.activity === "running" || session?.activity === "waiting";
  return (
    <main className="conversation" aria-label={name}>
      <div className="messages" role="log">
        {messages.length === 0 && <p className="quiet">Say something to the {name.toLowerCase()}.</p>}
        {messages.map((message) => (
          <Message key={message.id} message={message} isPaused={session?.state === "paused"} />
        ))}
        {interactions.map((asked) => (
          <Question
            key={asked.requestId}
            asked={asked}
            onAnswer={(answer) => void run(() => client.send({ ...answer, sessionId: id }))}
          />
        ))}
        <div ref={end} />
      </div>
      {refusal && (
        <p className="refusal" role="alert">
          {refusal}
        </p>
      )}
      {status === "waiting" && <p role="status">The connection is away. It comes back by itself.</p>}
      <form onSubmit={(event) => void send(event)}>
        <textarea
          aria-label="Your message"
          placeholder="Message"
          rows={1}
          value={text}
          onChange={({ target }) => setText(target.value)}
          onKeyDown={sendOnEnter}
        />
        {isBusy && (
          <button type="button" onClick={() => void run(() => client.send({ type: "abort", sessionId: id }))}>
            Stop
          </button>
        )}
        <button type="submit" className="primary" disabled={text.trim() === ""}>
          Send
        </button>
      </form>
    </main>
  );
}

function Message({ message, isPaused }: { message: SessionMessage; isPaused: boolean }) {
  const { role, content, status, isStreaming, errorMessage } = message;
  if (role !== "user" && role !== "assistant") return undefined;
  return (
    <article data-role={role} data-status={status}>
      {content}
      {isStreaming && !isPaused && <span className="cursor" aria-hidden="true" />}
      {isStreaming && isPaused && <small>goes on after the interruption</small>}
      {status === "interrupted" && <small>stopped</small>}
      {status === "error" && <small>{errorMessage}</small>}
    </article>
  );
}

type Answer =
  | { type: "tool_confirmation_response"; requestId: string; response: "approve" | "reject" }
  | { type: "user_question_response"; requestId: string; response: string };

/** What an agent asks: consent to a tool call, or a question with options. */
function Question({ asked, onAnswer }: { asked: PendingInteraction; onAnswer: (answer: Answer) => void }) {
  const { requestId } = asked;
  if (asked.type === "user_question_request") {
    const { question, options } = asked.data;
    return (
      <fieldset className="question">
        <legend>{question}</legend>
        {options.map((response) => (
          <button
            key={response}
            type="button"
            onClick={() => onAnswer({ type: "user_question_response", requestId, response })}
          >
            {response}
          </button>
        ))}
      </fieldset>
    );
  }
  const { name, arguments: json } = asked.data.toolCall.function;
  const decide = (response: "approve" | "reject") =>
    onAnswer({ type: "tool_confirmation_response", requestId, response });
  return (
    <fieldset className="question">
      <legend>{CONSENTS[name] ?? `May I use ${name}?`}</legend>
      <dl>
        {Object.entries(JSON.parse(json) as Record<string, unknown>).map(([key, value]) => (
          <div key={key}>
            <dt>{key}</dt>
            <dd>{String(value)}</dd>
          </div>
        ))}
      </dl>
      <button type="button" className="primary" onClick={() => decide("approve")}>
        Approve
      </button>
      <button type="button" onClick={() => decide("reject")}>
        Reject
      </button>
    </fieldset>
  );
}
