import { z } from "zod";
import { NOTICE_TYPES, type NoticeType } from "../notice.ts";

/** A webhook as operators see it. */
export const WebhookReport = z
  .object({
    name: z.string(),
    isKnown: z
      .boolean()
      .meta({ description: "false: this node's file has none of this name, and what waits is dropped after a day" }),
    url: z.string().optional().meta({ description: "without its query" }),
    types: z.array(z.enum(Object.keys(NOTICE_TYPES) as [NoticeType, ...NoticeType[]])).optional(),
    agents: z.array(z.string()).optional().meta({ description: "absent: all" }),
    users: z.array(z.string()).optional().meta({ description: "absent: all" }),
    disabledMs: z.number().optional().meta({
      description: "for how long nothing has been sent, because the receiver answered 410; absent: it is sent",
    }),
    pending: z.number().int().meta({ description: "notices that wait for the receiver" }),
    waitedMs: z.number().meta({ description: "for how long the oldest of them has waited" }),
    failures: z
      .number()
      .int()
      .meta({ description: "how often one of them was not accepted, at most; 0: the receiver accepts" }),
    reason: z.string().optional().meta({ description: "why it was not, the last time" }),
  })
  .meta({ id: "Webhook" });
export type WebhookReport = z.infer<typeof WebhookReport>;

/** How a webhook's receiver answered a test. */
export const WebhookTest = z.object({
  isAccepted: z.boolean(),
  status: z.number().int().optional().meta({ description: "of the receiver's answer; absent if none came" }),
  reason: z.string().optional().meta({ description: "why it was not accepted" }),
  durationMs: z.number(),
});
export type WebhookTest = z.infer<typeof WebhookTest>;
