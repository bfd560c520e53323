import { type FormEvent, useState } from "react";
import type { OutgoingMessage } from "../../src/client/client.ts";
import type { PendingInteraction } from "../../src/client/conversation-reader.ts";
import type { Session } from "../../src/protocol/session.ts";
import { isAudibleState } from "../../src/protocol/written-state.ts";
import { useClient } from "../../src/react/hooks.ts";
import { useHere } from "../moment/here.tsx";
import { leftText } from "../moment/time-text.ts";
import { Outcome } from "../parts/commands/outcome.tsx";
import { useAct } from "../parts/use-act.ts";
import { useNow } from "../parts/use-now.ts";
import type { WordKey } from "../words/en.ts";
import { useWords } from "../words/words.tsx";
import { Arguments } from "./conversation.tsx";
import styles from "./session.module.css";

interface Props {
  session: Session;
  interactions: readonly PendingInteraction[];
}

/** The agent's pending questions and confirmations: each stays until it is answered, here or elsewhere. */
export function Interactions({ session, interactions }: Props) {
  const { id: sessionId, state } = session;
  const isHeard = isAudibleState(state);
  return (
    <div className={styles["asks"]} aria-live="assertive">
      {interactions.map((each) =>
        each.type === "tool_confirmation_request" ? (
          <Confirmation key={each.requestId} {...{ sessionId, isHeard }} request={each} />
        ) : (
          <Question key={each.requestId} {...{ sessionId, isHeard }} request={each} />
        ),
      )}
    </div>
  );
}

type Request<T> = { sessionId: string; isHeard: boolean; request: Extract<PendingInteraction, { type: T }> };

type ResponseOf<T extends OutgoingMessage["type"]> = Extract<
  OutgoingMessage,
  { type: T; response: unknown }
>["response"];

const LABELS = {
  approve: "confirm.approve",
  approve_always: "confirm.always",
  reject: "confirm.reject",
} as const satisfies Record<string, WordKey>;
/** How the values of an agent's own options begin. */
const OWN = "approve:";

type Verdict = Extract<ResponseOf<"tool_confirmation_response">, string>;

/** The answer of a button, and its text: ours, or the agent's own for its option. */
function verdictOf({ value, label }: { value: string; label: string }, say: (key: WordKey) => string) {
  const isOurs = Object.hasOwn(LABELS, value);
  const text = isOurs ? say(LABELS[value as keyof typeof LABELS]) : label;
  return isOurs || value.startsWith(OWN) ? [{ value: value as Verdict, text }] : [];
}

function Confirmation({ sessionId, isHeard, request }: Request<"tool_confirmation_request">) {
  const { say } = useWords();
  const client = useClient();
  const { isLive } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const [reason, setReason] = useState("");
  const { requestId, data } = request;
  const { toolCall, isSensitive, availableOptions } = data;
  const answer = (response: ResponseOf<"tool_confirmation_response">) =>
    void act(
      () => client.send({ type: "tool_confirmation_response", sessionId, requestId, response }),
      () => say("told.answered"),
    );
  const disabled = !isLive || isBusy;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    answer({ type: "reject_with_reply", reason });
  };
  return (
    <section
      className={styles["ask"]}
      data-row
      data-options
      tabIndex={-1}
      aria-label={say("confirm.title", { tool: toolCall.function.name })}
    >
      <p>
        <b>{say("confirm.title", { tool: toolCall.function.name })}</b>{" "}
        {isSensitive && <span className={styles["sensitive"]}>{say("confirm.sensitive")}</span>}{" "}
        <Until of={data} isHeard={isHeard} />
      </p>
      <Arguments text={toolCall.function.arguments} />
      <p className={styles["actions"]}>
        {availableOptions
          .flatMap((option) => verdictOf(option, say))
          .map(({ value, text }, index) => (
            <button key={value} type="button" data-option disabled={disabled} onClick={() => answer(value)}>
              <span aria-hidden="true">{index + 1}</span> {text}
            </button>
          ))}
      </p>
      {availableOptions.some(({ value }) => value === "reject_with_reply") && (
        <form onSubmit={submit}>
          <input
            data-option
            value={reason}
            maxLength={16_384}
            aria-label={say("confirm.reason")}
            placeholder={say("confirm.reason")}
            disabled={disabled}
            onChange={({ target }) => setReason(target.value)}
          />
          <button type="submit" disabled={disabled || reason === ""}>
            {say("confirm.reply")}
          </button>
        </form>
      )}
      <Outcome of={lastCommand} />
    </section>
  );
}

function Question({ sessionId, isHeard, request }: Request<"user_question_request">) {
  const { say } = useWords();
  const client = useClient();
  const { isLive } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [own, setOwn] = useState("");
  const { requestId, data } = request;
  const { question, options, multiSelect = false } = data;
  const disabled = !isLive || isBusy;
  const answer = (response: ResponseOf<"user_question_response">) =>
    void act(
      () => client.send({ type: "user_question_response", sessionId, requestId, response }),
      () => say("told.answered"),
    );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const custom = own.trim() !== "" && { customInput: own };
    answer(chosen.length > 0 ? { selected: [...chosen], ...custom } : { customInput: own });
  };
  const toggle = (option: string, isChosen: boolean) => {
    if (!multiSelect) return setChosen([option]);
    setChosen(isChosen ? [...chosen, option] : chosen.filter((each) => each !== option));
  };
  return (
    <form className={styles["ask"]} data-row tabIndex={-1} onSubmit={submit}>
      <fieldset disabled={disabled}>
        <legend>{question}</legend>
        <Until of={data} isHeard={isHeard} />
        {options.map((option) => (
          <label key={option}>
            <input
              type={multiSelect ? "checkbox" : "radio"}
              name={requestId}
              checked={chosen.includes(option)}
              onChange={({ target }) => toggle(option, target.checked)}
            />{" "}
            {option}
          </label>
        ))}
        <input
          value={own}
          maxLength={16_384}
          aria-label={say("question.own")}
          placeholder={say("question.own")}
          onChange={({ target }) => setOwn(target.value)}
        />
        <p className={styles["actions"]}>
          <button type="submit" disabled={chosen.length === 0 && own.trim() === ""}>
            {say("question.answer")}
          </button>
          <button type="button" onClick={() => answer({ cancelled: true })}>
            {say("question.cancel")}
          </button>
        </p>
      </fieldset>
      <Outcome of={lastCommand} />
    </form>
  );
}

function Until({
  of: { expiresAt: at, audibleMs },
  isHeard,
}: {
  of: { expiresAt?: number | undefined; audibleMs?: number | undefined };
  isHeard: boolean;
}) {
  const { say, language } = useWords();
  const { isLive } = useHere();
  const now = useNow();
  if (!isLive) return undefined;
  if (audibleMs !== undefined && !isHeard) return <small>{say("ask.still")}</small>;
  if (audibleMs !== undefined) return <small>{say("ask.heard", { time: leftText(audibleMs, language) })}</small>;
  if (at === undefined) return undefined;
  return <small>{say("ask.until", { time: leftText(at - now, language) })}</small>;
}
