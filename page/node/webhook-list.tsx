import { useState } from "react";
import type { WebhookView } from "../../src/client/answers.ts";
import { useClient } from "../../src/react/hooks.ts";
import { lengthText } from "../moment/time-text.ts";
import { Outcome } from "../parts/commands/outcome.tsx";
import { ScrolledTable } from "../parts/scrolled-table.tsx";
import { type Act, useAct } from "../parts/use-act.ts";
import { usePolled } from "../parts/use-polled.ts";
import type { Say } from "../words/sentence.ts";
import { useWords } from "../words/words.tsx";
import styles from "./node.module.css";

/** The interval of the readings, in ms: the store counts all that waits. */
const EVERY_MS = 5_000;

const HEADS = [
  "webhooks.name",
  "node.state",
  "webhooks.waiting",
  "webhooks.failure",
  "webhooks.receiver",
  "runs.do",
] as const;

/** The webhooks, what waits for their receivers and why, for operators. */
export function WebhookList() {
  const { say, number } = useWords();
  const client = useClient();
  const lastCommand = useAct();
  const [hooks, setHooks] = useState<readonly WebhookView[]>([]);
  const [result, setResult] = useState<string>();
  // What cannot be read stays as it was: the view says why the node does not answer.
  const read = async (signal?: AbortSignal) => {
    const found = await client.listWebhooks(signal && { signal }).catch(() => undefined);
    if (found && !signal?.aborted) setHooks(found.webhooks);
  };
  usePolled(read, EVERY_MS, client);
  if (hooks.length === 0) return undefined;
  const run = async (command: () => Promise<string>) => {
    setResult(undefined);
    await lastCommand.act(command, (text) => {
      setResult(text);
      return text;
    });
    await read();
  };
  return (
    <section aria-labelledby="webhooks">
      <h2 id="webhooks">{say("webhooks.title", { count: number.format(hooks.length) })}</h2>
      <Outcome of={lastCommand} />
      {result !== undefined && <p>{result}</p>}
      <ScrolledTable
        label={say("webhooks.table")}
        heads={HEADS.map((head) => say(head))}
        look={[styles["scroll"], styles["nodes"]]}
      >
        <tbody>
          {hooks.map((hook) => (
            <HookRow key={hook.name} hook={hook} lastCommand={lastCommand} run={run} />
          ))}
        </tbody>
      </ScrolledTable>
    </section>
  );
}

type Run = (command: () => Promise<string>) => Promise<void>;

function HookRow({ hook, lastCommand: { isBusy }, run }: { hook: WebhookView; lastCommand: Act; run: Run }) {
  const { say, number, language } = useWords();
  const client = useClient();
  const { name, isKnown, url, disabledMs, pending, waitedMs, failures, reason } = hook;
  const test = () =>
    run(async () => {
      const { isAccepted, status = 0, reason: why = "", durationMs } = await client.testWebhook(name);
      if (!isAccepted) return say("webhooks.refused", { name, reason: why });
      return say("webhooks.accepted", { name, status, ms: number.format(durationMs) });
    });
  const enable = () =>
    run(async () => {
      await client.enableWebhook(name);
      return say("webhooks.enabled", { name });
    });
  return (
    <tr data-bad={disabledMs !== undefined || failures > 0 || !isKnown}>
      <th scope="row">{name}</th>
      <td>{stateOf(hook, say, language)}</td>
      <td>
        {number.format(pending)}
        {pending > 0 && ` · ${say("webhooks.since", { time: lengthText(waitedMs, language) })}`}
      </td>
      <td>{reason}</td>
      <td>{url && <code>{url}</code>}</td>
      <td>
        {isKnown && (
          <button type="button" disabled={isBusy} onClick={() => void test()}>
            {say("webhooks.test")}
          </button>
        )}{" "}
        {disabledMs !== undefined && (
          <button type="button" disabled={isBusy} onClick={() => void enable()}>
            {say("webhooks.enable")}
          </button>
        )}
      </td>
    </tr>
  );
}

function stateOf({ isKnown, disabledMs, failures }: WebhookView, say: Say, language: string): string {
  if (!isKnown) return say("webhooks.unknown");
  if (disabledMs !== undefined) return say("webhooks.disabled", { time: lengthText(disabledMs, language) });
  return failures === 0 ? say("webhooks.accepts") : say("webhooks.failing", { count: failures });
}
