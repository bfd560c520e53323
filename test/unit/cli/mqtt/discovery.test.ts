import { expect, test } from "vitest";
import { z } from "zod";
import { discoveryTopics } from "../../../../src/cli/mqtt/discovery.ts";

/**
 * What Home Assistant documents of its MQTT discovery, as far as entities that only show something may use it: the
 * topic's form, and the keys of each platform. Home Assistant drops an entity with a wrong value, and silently ignores
 * a key that it does not know, so a misspelt one is an error here.
 */
const CONFIG_TOPIC = /^homeassistant\/(sensor|binary_sensor)\/[a-zA-Z0-9_-]+\/[a-zA-Z0-9_-]+\/config$/;
const Topic = z
  .string()
  .min(1)
  .max(65_535)
  .regex(/^[^#+\0]+$/);
const Icon = z.string().regex(/^[a-z]+:[a-z0-9-]+$/);
const text = z.string().min(1);
const Device = z
  .strictObject({
    identifiers: z.array(text).optional(),
    connections: z.array(z.tuple([text, text])).optional(),
    configuration_url: z.url().optional(),
    hw_version: text.optional(),
    manufacturer: text.optional(),
    model: text.optional(),
    model_id: text.optional(),
    name: text.optional(),
    serial_number: text.optional(),
    suggested_area: text.optional(),
    sw_version: text.optional(),
    via_device: text.optional(),
  })
  .refine(({ identifiers = [], connections = [] }) => identifiers.length + connections.length > 0);
const common = {
  availability_mode: z.enum(["all", "any", "latest"]).optional(),
  availability_template: text.optional(),
  availability_topic: Topic.optional(),
  default_entity_id: text.optional(),
  // Without a unique id the entity has no device.
  device: Device,
  unique_id: text,
  enabled_by_default: z.boolean().optional(),
  encoding: z.string().optional(),
  entity_category: z.enum(["diagnostic", "config"]).optional(),
  entity_picture: z.url().optional(),
  expire_after: z.int().positive().optional(),
  force_update: z.boolean().optional(),
  icon: Icon.optional(),
  json_attributes_template: text.optional(),
  json_attributes_topic: Topic.optional(),
  name: text.nullable().optional(),
  payload_available: text.optional(),
  payload_not_available: text.optional(),
  qos: z.int().min(0).max(2).optional(),
  state_topic: Topic,
  value_template: text.optional(),
};
const PLATFORMS = {
  sensor: z.strictObject({
    ...common,
    device_class: z.enum(["enum", "timestamp", "duration", "sound_pressure"]).optional(),
    last_reset_value_template: text.optional(),
    options: z.array(text).optional(),
    state_class: z.enum(["measurement", "total", "total_increasing"]).optional(),
    suggested_display_precision: z.int().nonnegative().optional(),
    unit_of_measurement: text.optional(),
  }),
  binary_sensor: z.strictObject({
    ...common,
    device_class: z.enum(["connectivity", "occupancy", "presence", "problem", "running", "sound"]).optional(),
    off_delay: z.int().positive().optional(),
    payload_off: text.optional(),
    payload_on: text.optional(),
  }),
};

test("each entity is one that Home Assistant's discovery takes, and no two have one id", () => {
  const topics = discoveryTopics({
    name: "house",
    prefix: "interlock",
    floors: [
      { userId: "house", zone: "kitchen" },
      { userId: "house/kitchen", zone: undefined },
      { userId: "家", zone: "a+b#" },
    ],
    agents: [
      { id: "music_agent" as never, name: "Music" },
      { id: "phone-agent" as never, name: "Phone “1”" },
    ],
  });
  expect(topics.size).toBe(9);
  const ids = new Set<string>();
  for (const [topic, payload] of topics) {
    const [, platform] = CONFIG_TOPIC.exec(topic) ?? [];
    const entity = PLATFORMS[platform as keyof typeof PLATFORMS].parse(JSON.parse(payload));
    ids.add(`${platform} ${entity.unique_id}`);
  }
  expect(ids.size).toBe(topics.size);
});
