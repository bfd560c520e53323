/** How the bridge of MQTT starts: what it says where something is missing. */

import { expect, test } from "vitest";
import { MqttBridge } from "../../support/clients/mqtt-bridge.ts";
import { withoutPackage } from "../../support/nodes/cli.ts";

/** A bridge that ends by itself. @returns what it printed on stderr */
async function failureOf(text: string, flags: readonly string[] = []): Promise<string> {
  const bridge = await MqttBridge.start({ text, url: "http://127.0.0.1:9", flags });
  expect(await bridge.ended()).toBe(1);
  return bridge.errors;
}

test("without its library the bridge says how to install it", async () => {
  const said = await failureOf("broker: { url: mqtt://127.0.0.1:9 }\n", withoutPackage("mqtt"));
  expect(said).toBe("interlock: interlock mqtt needs the package mqtt: npm install mqtt@5.16.0\n");
});

test("a faulty file is named with its lines, all faults at once", async () => {
  const said = await failureOf("broker: { url: mqtt://b, pasword_file: x }\nflag: []\n");
  expect(said.split("\n")).toEqual([
    expect.stringMatching(
      /^interlock: \S+mqtt\.yaml:1:26 broker\.pasword_file: is not a known key; did you mean password_file\?$/,
    ),
    expect.stringMatching(/mqtt\.yaml:2:1 flag: is not a known key; did you mean flags\?$/),
    "",
  ]);
});
