import { z } from "zod";
import { parseDuration } from "../../config/quantities.ts";
import {
  AgentId,
  EVERY_ZONE,
  floorOfUser,
  Name,
  parseFloorId,
  SHORT_NAME,
  SHORT_NAME_FORM,
  userOf,
} from "../../protocol/ids.ts";
import { faultOfPattern, faultOfTopic, TopicPattern } from "./topics.ts";
import type { ValueCondition } from "./values.ts";

/** Agents, topics and devices of a file. A house has some hundred. */
const MAX_ENTRIES = 1_000;
/** The longest `after` of `when_lost`. */
const MAX_LOST_MS = 86_400_000;

const refuse = (context: z.RefinementCtx, message: string): never => {
  context.addIssue({ code: "custom", message });
  return z.NEVER;
};

/** A topic with wildcards. */
const Pattern = z.string().transform((text, context) => {
  const fault = faultOfPattern(text);
  return fault === undefined ? new TopicPattern(text) : refuse(context, fault);
});

/** A topic to publish to, or a single one to read. */
const Topic = z.string().superRefine((text, context) => {
  const fault = faultOfTopic(text);
  if (fault !== undefined) context.addIssue({ code: "custom", message: fault });
});

const Scalar = z.union([z.string().max(1_024), z.number(), z.boolean()]);
const Path = z.string().min(1).max(1_024);
const Is = z.union([Scalar, z.array(Scalar).min(1).max(64)]);

const hasOneCondition = ({ is, above, below }: ValueCondition): boolean =>
  [is, above, below].filter((each) => each !== undefined).length === 1;
const ONE_CONDITION = { error: "must have one of is, above and below" };

const Condition = z
  .strictObject({
    path: Path.optional(),
    is: Is.optional(),
    above: z.number().optional(),
    below: z.number().optional(),
  })
  .refine(hasOneCondition, ONE_CONDITION);

/** A floor of a user, as `u:driver` or `u:house/kitchen`. */
const UserFloor = z.string().transform((text, context) => {
  const floorId = parseFloorId(text);
  if (floorId === undefined || userOf(floorId) === undefined) {
    return refuse(context, "must be a floor of a user: u:<user> or u:<user>/<zone>");
  }
  return floorId;
});

/** What becomes of a flag while its signal is lost. */
export interface WhenLost {
  /** Undefined: it keeps its value. */
  to: boolean | undefined;
  afterMs: number;
}

const LOST = /^(keep|on|off)?(?:(?:^| )after (\d+(?:ms|s|m|h|d)))?$/;
const LostFlag = z
  .string()
  .default("keep")
  .transform((text, context): WhenLost => {
    const [, to, after] = LOST.exec(text) ?? [];
    const afterMs = after === undefined ? 0 : parseDuration(after)!;
    const isKnown = (to ?? after) !== undefined && !(to === "keep" && after !== undefined);
    if (!isKnown || afterMs > MAX_LOST_MS) {
      return refuse(context, "must be keep, on, off, after 5s (off after 5s) or on after 5s, at most 1d");
    }
    return { to: to === "keep" ? undefined : to === "on", afterMs };
  });

const FlagEntry = z.strictObject({
  topic: Pattern,
  value: Condition,
  floor: UserFloor,
  flag: z.string().regex(SHORT_NAME, SHORT_NAME_FORM),
  when_lost: LostFlag,
});
export type FlagEntry = z.infer<typeof FlagEntry>;

/** The last level of a topic of requests; the topics beside it are those of the session's further messages. */
const REQUEST = "request";

const RequestEntry = z
  .strictObject({
    topic: Pattern,
    /** Default: the level `+user` of the topic. */
    user: Name.optional(),
    /** `*`: all open floors. Default: the level `+zone` of the topic, or else the user's floor without a zone. */
    zone: Name.optional(),
    agents: z.array(AgentId).min(1).max(256),
  })
  .superRefine(({ topic, user, zone }, context) => {
    if (!(topic instanceof TopicPattern)) return;
    const fault = (message: string) => context.addIssue({ code: "custom", path: ["topic"], message });
    if (topic.filter.split("/").at(-1) !== REQUEST) fault(`must end with /${REQUEST}`);
    if (topic.names.some((name) => name !== "user" && name !== "zone")) fault("may name the levels +user and +zone");
    if (topic.names.includes("user") === (user !== undefined)) fault("must have a level +user, or its entry a user");
    if (topic.names.includes("zone") && zone !== undefined) fault("has a level +zone, and its entry a zone");
  });
export type RequestEntry = z.infer<typeof RequestEntry>;

/** What a device says of its playback when it has nothing to go on with. */
const STOPPED = ["stopped", "stop", "idle", "off"];

/** An order, as a message. */
const Order = z.strictObject({ topic: Topic, payload: z.string().max(65_536), retain: z.boolean().default(false) });
export type DeviceOrder = z.infer<typeof Order>;

const SET = "/set";

const Volume = z
  .strictObject({
    /** Where its volume is set. */
    topic: Topic,
    /** The scale of the device: `percent` from 0 to 100, or `fraction` from 0 to 1. */
    from_db: z.enum(["percent", "fraction"]),
    /** Where the device says its volume. Default: the topic without `/set` at its end. */
    state: z.strictObject({ topic: Topic, path: Path.optional() }).optional(),
  })
  .transform(({ topic, from_db, state }, context) => {
    const own = state ?? (topic.endsWith(SET) ? { topic: topic.slice(0, -SET.length) } : undefined);
    if (!own) return refuse(context, "must have a state: the topic in which the device says its volume");
    return { topic, scale: from_db, state: own as { topic: string; path?: string | undefined } };
  });

const DeviceEntry = z.strictObject({
  id: z.string().regex(SHORT_NAME, SHORT_NAME_FORM),
  agent: AgentId,
  user: Name,
  zone: Name.optional(),
  playing: z.strictObject({ topic: Topic, path: Path.optional(), is: Is, stopped: Is.default(STOPPED) }),
  alive: z.strictObject({ topic: Topic, path: Path.optional(), is: Is }).optional(),
  title: z.strictObject({ topic: Topic, path: Path.optional() }).optional(),
  pause: Order,
  play: Order,
  volume: Volume.optional(),
});
export type DeviceEntry = z.infer<typeof DeviceEntry>;

const Broker = z
  .strictObject({
    url: z.string().refine(isBrokerUrl, "must be a URL with mqtt, mqtts, ws or wss, without a user and a password"),
    /** 5, or 4 for MQTT 3.1.1. */
    version: z.union([z.literal(5), z.literal("3.1.1")], { error: 'must be 5 or "3.1.1"' }).default(5),
    username: z.string().min(1).max(1_024).optional(),
    password_file: z.string().min(1).optional(),
    ca: z.string().min(1).optional(),
    cert: z.string().min(1).optional(),
    key: z.string().min(1).optional(),
  })
  .refine(({ cert, key }) => (cert === undefined) === (key === undefined), { error: "must have both cert and key" })
  .refine(({ username, password_file }) => password_file === undefined || username !== undefined, {
    error: "has a password_file, and needs a username",
  });

function isBrokerUrl(text: string): boolean {
  if (!/^(mqtt|ws)s?:\/\/./.test(text) || !URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username === "" && password === "";
}

export const MqttFile = z
  .strictObject({
    broker: Broker,
    /** What the bridge is called on the broker. Of two bridges with one name the later one takes over. */
    name: z.string().regex(SHORT_NAME, SHORT_NAME_FORM).default("interlock"),
    /** Everything that the bridge publishes is below it, but for orders to devices and replies. */
    prefix: Topic.default("interlock"),
    /** Floors to publish, besides those of flags, devices and requests. */
    floors: z.array(UserFloor).max(MAX_ENTRIES).default([]),
    flags: z.array(FlagEntry).max(MAX_ENTRIES).default([]),
    requests: z.array(RequestEntry).max(MAX_ENTRIES).default([]),
    players: z.array(DeviceEntry).max(MAX_ENTRIES).default([]),
    discovery: z.literal("homeassistant").optional(),
  })
  .superRefine(({ players }, context) => {
    const seen = new Set<string>();
    for (const [index, { id }] of players.entries()) {
      if (seen.has(id)) context.addIssue({ code: "custom", path: ["players", index, "id"], message: "is used twice" });
      seen.add(id);
    }
  });
export type MqttFile = z.infer<typeof MqttFile>;

/** The floors that the file names, each once. */
export function floorsOfFile({ floors, flags, players, requests }: MqttFile): string[] {
  return [
    ...new Set<string>([
      ...floors,
      ...flags.map(({ floor }) => floor),
      ...players.map(({ user, zone }) => floorOfUser(user, zone)),
      ...requests.flatMap(({ user, zone }) =>
        user === undefined || zone === EVERY_ZONE ? [] : [floorOfUser(user, zone)],
      ),
    ]),
  ];
}
