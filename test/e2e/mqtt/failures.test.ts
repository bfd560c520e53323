/** What goes wrong between a broker, a bridge and a node. */

import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/interlock-client.ts";
import { MqttBridge } from "../../support/clients/mqtt-bridge.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { Mosquitto } from "../../support/servers/mosquitto.ts";
import { MQTT_AGENTS, MqttStage } from "../../support/servers/mqtt-stage.ts";

describeWith(["mosquitto"], "interlock mqtt, when something goes wrong", (path) => {
  const stage = MqttStage.forSuite(path);

  const flagsOf = async (user: string) => (await stage.client.getFloor(`u:${user}`)).flags;
  const flag = (user: string, name: string, rest = "") =>
    `  - { topic: vss/${user}/${name}, value: { is: true }, floor: u:${user}, flag: ${name}${rest} }\n`;

  test("while the broker is away flags are as when_lost says, and the newest state of each topic is there when it is back", async () => {
    const user = stage.node.newUser();
    const rows =
      flag(user, "kept") + flag(user, "off", ", when_lost: off") + flag(user, "on", ", when_lost: on after 50ms");
    const bridge = await stage.bridge(user, `flags:\n${rows}`);
    for (const name of ["kept", "off"]) await stage.broker.retain(`vss/${user}/${name}`, "true");
    await stage.broker.retain(`vss/${user}/on`, "false");
    await expect.poll(() => flagsOf(user)).toEqual({ kept: true, off: true, on: false });
    await stage.broker.kill();
    await expect.poll(() => flagsOf(user)).toEqual({ kept: true, off: false, on: true });
    const first = await stage.ask("music_agent", user);
    await stage.client.stopSession(first);
    const second = await stage.ask("prompt_agent", user);
    // The broker is another one, without anything that the former one kept.
    await stage.broker.begin();
    const heard = await stage.broker.listen("interlock/#");
    const base = `interlock/floor/${user}/-`;
    await expect.poll(() => heard.json(`${base}/holder`)).toMatchObject({ sessionId: second });
    await expect.poll(() => heard.last(`interlock/bridge/${user}`)).toBe("online");
    expect(heard.of(`${base}/session/${first}`).filter((state) => state !== "")).toEqual([]);
    await stage.broker.retain(`vss/${user}/off`, "true");
    await expect.poll(() => flagsOf(user)).toEqual({ kept: true, off: true, on: true });
    expect(await bridge.stop()).toBe(0);
    // A bridge that ends is a signal that is lost.
    expect(await flagsOf(user)).toEqual({ kept: true, off: false, on: true });
  });

  test("topics of sessions that ended while no bridge ran are cleared, and so is what others put below the floors", async () => {
    const user = stage.node.newUser();
    const rest = `floors: ["u:${user}"]`;
    const bridge = await stage.bridge(user, rest);
    const heard = await stage.broker.listen("interlock/floor/#");
    const session = await stage.ask("music_agent", user);
    const topic = `interlock/floor/${user}/-/session/${session}`;
    await expect.poll(() => heard.json(topic)).toMatchObject({ state: "active" });
    await bridge.kill();
    await stage.client.stopSession(session);
    const strange = [
      `interlock/floor/${user}/-/session/nobody`,
      `interlock/floor/${user}/%zz/holder`,
      "interlock/floor/x",
    ];
    for (const each of strange) await stage.broker.retain(each, "{}");
    await bridge.begin();
    for (const each of [topic, ...strange]) await expect.poll(() => heard.last(each)).toBe("");
    await expect.poll(() => heard.json(`interlock/floor/${user}/-/holder`)).toMatchObject({ sessionId: null });
  });

  test.each([5, "3.1.1"] as const)(
    "of two bridges with one name the second takes over, and the first says so and ends (MQTT %s)",
    async (version) => {
      const user = stage.node.newUser();
      const rest = `floors: ["u:${user}"]`;
      const first = await stage.bridge(user, rest, version);
      const heard = await stage.broker.listen("interlock/bridge/#");
      const second = await stage.bridge(user, rest, version);
      expect(await first.ended()).toBe(1);
      expect(first.errors).toBe(`interlock: another bridge with the name ${user} has taken over\n`);
      expect(second.code).toBeUndefined();
      const session = await stage.ask("music_agent", user);
      const floors = await stage.broker.listen("interlock/floor/#");
      await expect.poll(() => floors.json(`interlock/floor/${user}/-/holder`)).toMatchObject({ sessionId: session });
      expect(heard.last(`interlock/bridge/${user}`)).toBe("online");
    },
  );

  test("a flood of one value is one request; a message of 1 MB, no JSON and a wrong type are counted, said and change nothing", async () => {
    const user = stage.node.newUser();
    const bridge = await stage.bridge(
      user,
      `flags:\n${flag(user, "flood")}requests: [{ topic: "in/${user}/request", user: ${user}, agents: [prompt_agent] }]`,
    );
    const requests = async () => {
      const text = await stage.client.getMetrics();
      return Number(/^interlock_commands_total\{[^}]*floor\.patch_flags[^}]*\} (\d+)$/m.exec(text)?.[1] ?? 0);
    };
    const before = await requests();
    await stage.broker.publishLines(
      `vss/${user}/flood`,
      Array.from({ length: 5_000 }, () => "true"),
    );
    await expect.poll(() => flagsOf(user)).toEqual({ flood: true });
    await stage.broker.publishLines(`vss/${user}/flood`, ["maybe", "17", "[]", "", "x".repeat(1_000_000)]);
    // The broker keeps what is longer than the bridge takes.
    await stage.broker.publishLines(`vss/${user}/flood`, ["x".repeat(3_000_000)]);
    await stage.broker.publishLines(`in/${user}/request`, ["no JSON", "[]", "7", "{}", "x".repeat(1_000_000)]);
    await expect.poll(() => bridge.said).toMatch(/\d messages? (was|were) left alone, the last one in \S+: /);
    await stage.broker.publish(`vss/${user}/flood`, "false");
    await expect.poll(() => flagsOf(user)).toEqual({ flood: false });
    expect(await requests()).toBe(before + 2);
    expect(bridge.said).not.toContain("the broker is away");
    expect(await stage.statesOf(user)).toEqual([]);
  });

  test("a signal that comes while the node is away counts when it is back, and devices stay as they are meanwhile", async () => {
    const user = stage.node.newUser();
    const device = await stage.device(`${user}/k`);
    const proxy = await CuttingProxy.start(stage.node.url);
    const text = stage.text(
      user,
      `flags:\n${flag(user, "gear")}players: [${device.entry(`id: k, agent: music_agent, user: ${user}`)}]`,
    );
    await MqttBridge.start({ text, url: proxy.url });
    await stage.isOnline(user);
    await device.press("playing");
    await expect.poll(() => stage.statesOf(user)).toEqual(["music_agent active"]);
    proxy.refuse();
    const call = await stage.ask("phone_agent", user);
    await stage.broker.publish(`vss/${user}/gear`, "true");
    expect(device.playing).toBe("playing");
    proxy.admit();
    await expect.poll(() => flagsOf(user)).toEqual({ gear: true });
    await expect.poll(() => device.playing).toBe("paused");
    await stage.client.stopSession(call);
    await expect.poll(() => device.playing).toBe("playing");
  });

  test("what the broker does not let it publish is said, what it may not hear changes nothing, and the bridge goes on", async () => {
    const user = stage.node.newUser();
    const rules = [
      "topic readwrite #",
      `topic deny vss/${user}/secret`,
      `topic deny interlock/floor/${user}/-/holder`,
      "",
    ].join("\n");
    const broker = await Mosquitto.start(path, {
      lines: ["allow_anonymous true", "acl_file FOLDER/rules"],
      files: { rules },
    });
    onTestFinished(() => broker.stop());
    const text = stage.text(user, `flags:\n${flag(user, "secret")}${flag(user, "gear")}`, `{ url: ${broker.url} }`);
    const bridge = await MqttBridge.start({ text, url: stage.node.url });
    const heard = await broker.listen("interlock/#");
    const base = `interlock/floor/${user}/-`;
    await expect.poll(() => heard.json(`${base}/heard`)).toEqual({ heard: [] });
    for (const name of ["secret", "gear"]) await broker.publish(`vss/${user}/${name}`, "true");
    await expect.poll(() => flagsOf(user)).toEqual({ gear: true });
    await expect.poll(() => bridge.said).toMatch(new RegExp(`in ${base}/holder: the broker does not take it`));
    const session = await stage.ask("music_agent", user);
    await expect.poll(() => heard.json(`${base}/session/${session}`)).toMatchObject({ agent: "music_agent" });
    expect([heard.of(`${base}/holder`), bridge.code]).toEqual([[], undefined]);
  });

  test("a node that starts again without its store gets the device's session and the flags anew, and topics of lost sessions are cleared", async () => {
    const catalog = { agents: [...MQTT_AGENTS], default_agent: "dialog_agent" };
    const settings = { PORT: String(await freePort()), INTERLOCK_STORE: "sqlite::memory:" };
    const installation = await makeInstallation(catalog, settings);
    const node = await installation.start();
    const user = stage.node.newUser();
    const device = await stage.device(`${user}/k`);
    const entry = device.entry(`id: k, agent: music_agent, user: ${user}`);
    const text = stage.text(user, `flags:\n${flag(user, "gear")}players: [${entry}]`);
    const bridge = await MqttBridge.start({ text, url: node.url });
    const heard = await stage.broker.listen("interlock/#");
    const base = `interlock/floor/${user}/-`;
    await stage.isOnline(user);
    await stage.broker.publish(`vss/${user}/gear`, "true");
    await device.press("playing");
    await expect.poll(() => heard.json(`${base}/holder`)).toMatchObject({ agent: "music_agent" });
    const { sessionId } = heard.json(`${base}/holder`) as { sessionId: string };
    await node.kill();
    const client = createClient({ baseUrl: (await installation.start()).url });
    await expect.poll(() => heard.last(`${base}/session/${sessionId}`)).toBe("");
    await expect.poll(async () => (await client.getFloor(`u:${user}`)).flags).toEqual({ gear: true });
    await expect.poll(() => heard.json(`${base}/holder`)).toMatchObject({ agent: "music_agent" });
    expect(device.playing).toBe("playing");
    const call = await client.createSession({ agentId: "phone_agent", userId: user, activate: true });
    await expect.poll(() => device.playing).toBe("paused");
    await client.stopSession(call.session.id);
    await expect.poll(() => device.playing).toBe("playing");
    expect(bridge.code).toBeUndefined();
  });
});
