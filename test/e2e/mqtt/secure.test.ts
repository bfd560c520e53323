/** A broker with TLS, passwords and access rules, whose certificates the test has made. */

import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient } from "../../../src/client/interlock-client.ts";
import { MqttBridge } from "../../support/clients/mqtt-bridge.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { makeCertificate } from "../../support/servers/certificate.ts";
import { Mosquitto } from "../../support/servers/mosquitto.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const run = promisify(execFile);

describeWith(["mosquitto", "openssl"], "interlock mqtt with TLS and passwords", (path, openssl) => {
  let node: NodeUnderTest;
  let broker: Mosquitto;
  let remove: (() => Promise<void>) | undefined;
  beforeAll(async () => {
    const { folder, ...made } = await makeFolder();
    ({ remove } = made);
    const certificates = ["broker", "car", "other"].map((name) => makeCertificate(openssl, folder, name));
    const files = Object.fromEntries(
      (await Promise.all(certificates)).flatMap(({ file, keyFile, text, key }) => [
        [basename(file), text],
        [basename(keyFile), key],
      ]),
    );
    const passwords = join(folder, "passwords");
    await run("mosquitto_passwd", ["-b", "-c", passwords, "car", "s3cret"]);
    const rules = ["user car", "topic readwrite #", "topic deny secret/#", ""].join("\n");
    node = await NodeUnderTest.start();
    broker = await Mosquitto.start(path, {
      files: { ...files, passwords: await readFile(passwords, "utf8"), rules },
      lines: [
        "allow_anonymous false",
        "password_file FOLDER/passwords",
        "acl_file FOLDER/rules",
        "cafile FOLDER/car.crt",
        "certfile FOLDER/broker.crt",
        "keyfile FOLDER/broker.key",
        "require_certificate true",
      ],
      clientOptions: (folder) => [
        ...[
          "--cafile",
          join(folder, "broker.crt"),
          "--cert",
          join(folder, "car.crt"),
          "--key",
          join(folder, "car.key"),
        ],
        ...["-u", "car", "-P", "s3cret"],
      ],
    });
  });
  afterAll(async () => {
    await broker?.stop();
    await node?.stop();
    await remove?.();
  });

  async function start(name: string, { ca = "broker.crt", password = "s3cret" } = {}) {
    const at = (file: string) => join(broker.folder, file);
    await writeFile(at(`${name}.password`), `${password}\n`, { mode: 0o600 });
    const text = `
broker:
  url: ${broker.url.replace("mqtt:", "mqtts:")}
  username: car
  password_file: ${at(`${name}.password`)}
  ca: ${at(ca)}
  cert: ${at("car.crt")}
  key: ${at("car.key")}
name: ${name}
flags: [{ topic: gear, value: { is: -1 }, floor: u:driver, flag: reverse_gear }, { topic: "secret/gear", value: { is: 1 }, floor: u:driver, flag: secret }]
`;
    const bridge = await MqttBridge.start({ text, url: node.url });
    return bridge;
  }

  test("a bridge with the authority, its certificate and its password takes part", async () => {
    const heard = await broker.listen("interlock/#");
    const bridge = await start("secure");
    await expect.poll(() => heard.last("interlock/bridge/secure")).toBe("online");
    await broker.retain("gear", "-1");
    const flags = async () => (await createClient({ baseUrl: node.url }).getFloor("u:driver")).flags;
    await expect.poll(flags).toEqual({ reverse_gear: true });
    // The password is in no line.
    expect(bridge.said).not.toContain("s3cret");
  });

  test("a broker of another authority is not trusted, a wrong password is said, and neither ends the bridge", async () => {
    const other = await start("other", { ca: "other.crt" });
    await expect.poll(() => other.said).toMatch(/the broker is away, and is tried again: .*certificate/);
    const wrong = await start("wrong", { password: "guessed" });
    await expect
      .poll(() => wrong.said)
      .toMatch(/the broker is away, and is tried again: .*([Nn]ot authorized|[Bb]ad user)/);
    // The password is read for each connection.
    await writeFile(join(broker.folder, "wrong.password"), "s3cret\n");
    await expect.poll(() => wrong.said).toContain("the broker is there");
    expect([other.code, wrong.said.includes("guessed")]).toEqual([undefined, false]);
  });

  test("a file of the broker's that is not there is named", async () => {
    const bridge = await start("lacking", { ca: "nowhere.pem" });
    expect(await bridge.ended()).toBe(1);
    expect(bridge.errors).toMatch(/^interlock: \S+nowhere\.pem: the file cannot be read\n$/);
  });
});
