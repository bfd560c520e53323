import type { Webhook } from "../config/webhooks-file.ts";
import type { WebhookReport } from "../protocol/internal/webhook-report.ts";
import type { DisabledHook, NoticeBacklog } from "../store/store.ts";
import { disabledSince } from "./disabled.ts";

/**
 * The webhooks of a node's file, and after them those that only the store knows, with what waits for their receivers.
 * @param now in the floors' time, ms
 */
export function listWebhooks(
  hooks: ReadonlyMap<string, Webhook>,
  backlogs: readonly NoticeBacklog[],
  disabled: readonly DisabledHook[],
  now: number,
): WebhookReport[] {
  const waiting = (name: string) => {
    const backlog = backlogs.find(({ hook }) => hook === name);
    if (!backlog) return { pending: 0, waitedMs: 0, failures: 0 };
    const { pending, oldestAt, failures, reason } = backlog;
    return { pending, waitedMs: Math.max(0, now - oldestAt), failures, ...(reason !== undefined && { reason }) };
  };
  const known = Array.from(hooks.values(), (hook) => ({ hook, since: disabledSince(hook, disabled) })).map(
    ({ hook: { name, url, types, agents, users }, since }) => ({
      ...{ name, isKnown: true, url: `${url.origin}${url.pathname}`, types: [...types] },
      ...(agents && { agents: [...agents] }),
      ...(users && { users: [...users] }),
      ...(since !== undefined && { disabledMs: Math.max(0, now - since) }),
      ...waiting(name),
    }),
  );
  const unknown = backlogs.filter(({ hook }) => !hooks.has(hook));
  return [...known, ...unknown.map(({ hook }) => ({ name: hook, isKnown: false, ...waiting(hook) }))];
}
