/** The pages of the MQTT bridge are played: their files, and each command with the answer that they show. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { reportAnnouncement } from "../../src/cli/announce.ts";
import { MqttFile } from "../../src/cli/mqtt/mqtt-file.ts";
import { createClient } from "../../src/client/interlock-client.ts";
import { parseYamlFile } from "../../src/config/yaml-file.ts";
import { MqttBridge } from "../support/clients/mqtt-bridge.ts";
import { NodeUnderTest } from "../support/nodes/node-under-test.ts";
import { testWith } from "../support/programs/suites.ts";
import { Mosquitto } from "../support/servers/mosquitto.ts";
import { type Page, readPage, readPages } from "./page.ts";
import { difference } from "./shown.ts";

const run = promisify(execFile);

interface Shown {
  /** The catalogue of its node. */
  catalogue: string;
  page: Page;
}

const textsOf = ({ blocks }: Page, info: string): string[] =>
  blocks.filter((block) => block.info === info).map(({ text }) => text);

test("every file of the bridge on a page is valid", () => {
  const shown = readPages().flatMap((page) => textsOf(page, "yaml mqtt"));
  expect(shown.length).toBeGreaterThan(3);
  for (const text of shown) expect(parseYamlFile(text, MqttFile)).toMatchObject({ ok: true });
});

/** A node, a broker and a bridge as the page starts them. */
async function started({ page, catalogue }: Shown, path: string) {
  const { agents, ...catalog } = parse(catalogue);
  const node = await NodeUnderTest.start({ agents, catalog });
  onTestFinished(() => node.stop());
  const broker = await Mosquitto.start(path);
  onTestFinished(() => broker.stop());
  const [text] = textsOf(page, "yaml mqtt");
  await MqttBridge.start({ text: text!.replace("mqtt://127.0.0.1:1883", broker.url), url: node.url });
  const heard = await broker.listen("#");
  const { name } = parse(text!);
  await expect.poll(() => heard.last(`interlock/bridge/${name}`)).toBe("online");
  return { node, broker, heard };
}

/** Play the commands of a page, and compare what they print. */
async function play(shown: Shown, path: string) {
  const stage = await started(shown, path);
  const { broker, heard } = stage;
  let session = "";
  let seen = 0;
  const shell = async (line: string) => {
    const command = line.replace(/^(mosquitto_(?:pub|sub|rr)) /, `$1 -h 127.0.0.1 -p ${broker.port} `);
    return (await run("bash", ["-c", command], { env: { ...process.env, SESSION: session } })).stdout;
  };
  const isRead = (line: string) => /^mosquitto_(sub|rr) /.test(line);
  let reads: { line: string; printed: string }[] = [];
  const checkAnswer = async ({ line, printed }: { line: string; printed: string }, wanted: unknown) => {
    if (line.startsWith("mosquitto_sub ")) {
      // What is retained may not be there yet.
      return await expect
        .poll(async () => difference(wanted, JSON.parse(await shell(line))), { message: line })
        .toBeUndefined();
    }
    const answer = JSON.parse(printed);
    expect(difference(wanted, answer), `${line}\n${printed}`).toBeUndefined();
    session = answer.sessionId ?? session;
  };
  for (const { info, text } of shown.page.blocks) {
    const lines = text.split("\n").filter((line) => line !== "");
    if (info === "sh" && !text.includes("npm install")) {
      reads = [];
      for (const line of lines) reads.push({ line, printed: await shell(line) });
      reads = reads.filter(({ line }) => isRead(line));
    } else if (info === "json") {
      expect(lines.length).toBe(reads.length);
      for (const [index, each] of reads.entries()) await checkAnswer(each, JSON.parse(lines[index]!));
    } else if (info === "text") {
      for (const line of lines) {
        const at = () =>
          heard.messages.findIndex((each, index) => index >= seen && `${each.topic} ${each.payload}` === line);
        await expect.poll(at, { message: line }).toBeGreaterThan(-1);
        seen = at() + 1;
      }
    }
  }
  return stage;
}

testWith(["mosquitto", "bash"], "docs/use/vehicle.md is what happens", async (path) => {
  await play({ page: readPage("docs/use/vehicle.md"), catalogue: readPage("config/car.yaml").text }, path);
});

testWith(["mosquitto", "bash"], "docs/use/house.md is what happens, and its automations ask and obey", async (path) => {
  const page = readPage("docs/use/house.md");
  const { node, broker, heard } = await play({ page, catalogue: textsOf(page, "yaml")[0]! }, path);
  const [asking, obeying] = textsOf(page, "yaml automation").map((text) => parse(text));
  await broker.retain("house/night", "OFF");
  const client = createClient({ baseUrl: node.url });
  await expect.poll(async () => (await client.getFloor("u:house/kitchen")).flags).toEqual({ night: false });
  await client.stopAll("u:house/kitchen");
  const { topic, payload } = asking.actions[0].data;
  await broker.publish(topic, payload.replace("{{ context.id }}", "context-1"));
  await expect.poll(() => heard.json("interlock/out/house/reply/context-1")).toMatchObject({ outcome: "granted" });
  await client.stopAll("u:house/kitchen");
  const [, told, user, announcer] = /`interlock announce "([^"]+)" --user (\S+) --agent (\S+)`/.exec(page.text)!;
  const { isFaulty } = await reportAnnouncement(client, { text: told!, user: user!, agent: announcer! });
  expect([isFaulty, (await client.getFloor("u:house/kitchen")).holder?.title]).toEqual([false, told]);
  const [{ topic: holder, payload: agent }] = obeying.triggers;
  const holders = heard.of(holder).map((text) => JSON.parse(text).agent);
  expect(holders).toContain(agent);
  // Each entity of discovery reads a topic that is published.
  const entities = heard.messages.filter((each) => each.topic.startsWith("homeassistant/"));
  expect(entities.length).toBe(2 * (1 + 4));
  for (const { payload: text } of entities) {
    const { state_topic, availability_topic, unique_id, device } = JSON.parse(text);
    expect([heard.last(state_topic), heard.last(availability_topic)], unique_id).toEqual([
      expect.stringMatching(/^\{/),
      "online",
    ]);
    expect(device.name).toMatch(/^Interlock house, (kitchen|living)$/);
  }
});
