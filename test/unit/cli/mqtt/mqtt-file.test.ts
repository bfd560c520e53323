import { expect, test } from "vitest";
import { floorsOfFile, MqttFile } from "../../../../src/cli/mqtt/mqtt-file.ts";
import { mqttSchema } from "../../../../src/cli/mqtt/published.ts";
import { parseYamlFile } from "../../../../src/config/yaml-file.ts";
import { readPage } from "../../../docs/page.ts";

const parseMqttFile = (text: string) => parseYamlFile(text, MqttFile);
const faults = (text: string) => {
  const reading = parseMqttFile(text);
  return reading.ok ? [] : reading.faults.map(({ line, path, message }) => `${line} ${path} ${message}`);
};

test("a file is read with its defaults, and names its floors once", () => {
  const reading = parseMqttFile(`
broker: { url: "mqtt://broker" }
flags:
  - { topic: gear, value: { path: value, is: -1 }, floor: u:driver, flag: reverse_gear, when_lost: on after 5s }
  - { topic: "seat/+row/IsBelted", value: { is: false }, floor: "u:driver", flag: unbelted }
  - { topic: speed, value: { above: 5 }, floor: "u:a%2fb/kitchen", flag: driving, when_lost: after 5s }
requests: [{ topic: "in/+user/request", agents: [doorbell_agent] }, { topic: request, user: house, agents: [a] }]
players:
  - { id: kitchen, agent: music_agent, user: house, zone: kitchen, playing: { topic: k/state, is: playing },
      pause: { topic: k/cmd, payload: pause }, play: { topic: k/cmd, payload: play }, volume: { topic: k/volume/set, from_db: percent } }
`);
  if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
  const { file } = reading;
  expect(floorsOfFile(file)).toEqual(["u:driver", "u:a%2Fb/kitchen", "u:house/kitchen", "u:house"]);
  expect(file.flags.map(({ when_lost }) => when_lost)).toEqual([
    { to: true, afterMs: 5_000 },
    { to: undefined, afterMs: 0 },
    { to: false, afterMs: 5_000 },
  ]);
  expect(file).toMatchObject({ prefix: "interlock", name: "interlock", broker: { version: 5 } });
  expect(file.players[0]!.volume).toEqual({ topic: "k/volume/set", scale: "percent", state: { topic: "k/volume" } });
});

test("all faults of a file are named with their places", () => {
  const device =
    "agent: a, user: u, playing: { topic: p, is: playing }, pause: { topic: c, payload: x }, play: { topic: c, payload: y }";
  const text = [
    "broker: { url: http://broker, cert: a.pem }",
    "flags:",
    "  - { topic: 'a/+', value: { is: 1, above: 2 }, floor: u:driver, flag: f }",
    "  - { topic: 'a+', value: { is: 1 }, floor: s:x, flag: F, when_lost: maybe }",
    "  - { topci: a, value: { is: 1 }, floor: u:d, flag: f, topic: a }",
    "requests:",
    "  - { topic: in/request, agents: [a] }",
    "  - { topic: in/+user/ask, agents: [a] }",
    "players:",
    `  - { id: k, ${device}, volume: { topic: v, from_db: percent } }`,
    `  - { id: l, ${device.replace("topic: c", "topic: 'c/#'")} }`,
  ].join("\n");
  expect(faults(text)).toEqual([
    expect.stringMatching(/^1 broker.* must have both cert and key$/),
    "1 broker.url must be a URL with mqtt, mqtts, ws or wss, without a user and a password",
    "3 flags[0].value must have one of is, above and below",
    expect.stringMatching(/^4 flags\[1\]\.topic has a wildcard that is no whole level/),
    expect.stringMatching(/^4 flags\[1\]\.floor must be a floor of a user/),
    expect.stringMatching(/^4 flags\[1\]\.flag must be/),
    expect.stringMatching(/^4 flags\[1\]\.when_lost must be keep, on, off/),
    "5 flags[2].topci is not a known key; did you mean topic?",
    "7 requests[0].topic must have a level +user, or its entry a user",
    "8 requests[1].topic must end with /request",
    expect.stringMatching(/^10 players\[0\]\.volume must have a state/),
    expect.stringMatching(/^11 players\[1\]\.pause\.topic must be a topic without wildcards/),
  ]);
  expect(faults("broker: { url: 'mqtts://me:secret@broker' }")).toHaveLength(1);
  expect(faults(`broker: { url: "mqtt://b" }\nplayers: [{ id: k, ${device} }, { id: k, ${device} }]`)).toEqual([
    "2 players[1].id is used twice",
  ]);
});

test("the JSON Schema of what is published is the recorded one", () => {
  expect(JSON.parse(readPage("docs/use/mqtt.schema.json").text)).toEqual(mqttSchema());
});
