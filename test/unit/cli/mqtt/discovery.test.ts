import { expect, test } from "vitest";
import { z } from "zod";
import { discoveryTopics } from "../../../../src/cli/mqtt/discovery.ts";

/**
 * What Home Assistant documents of its MQTT discovery: the topic's form, and for each platform the keys that the bridge
 * uses. Home Assistant drops an entity with a wrong value, and silently ignores a key that it does not know, so a
 * misspelt one is an error here.
 */
const CONFIG_TOPIC = /^homeassistant\/(sensor|binary_sensor)\/[a-zA-Z0-9_-]+\/[a-zA-Z0-9_-]+\/config$/;
const Topic = z
  .string()
  .min(1)
  .max(65_535)
  .regex(/^[^#+\0]+$/);
const text = z.string().min(1);
const common = {
  availability_topic: Topic,
  device: z.strictObject({ identifiers: z.array(text).min(1), manufacturer: text, name: text }),
  name: text,
  state_topic: Topic,
  // Without a unique id the entity has no device.
  unique_id: text,
  value_template: text,
};
const PLATFORMS = {
  sensor: z.strictObject({
    ...common,
    icon: z.string().regex(/^[a-z]+:[a-z0-9-]+$/),
    json_attributes_topic: Topic,
  }),
  binary_sensor: z.strictObject({
    ...common,
    device_class: z.enum(["connectivity", "occupancy", "presence", "problem", "running", "sound"]),
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
