/** A broker with TLS, passwords and access rules, whose authority the test has made. */

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/interlock-client.ts";
import { MqttBridge } from "../../support/clients/mqtt-bridge.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { Mosquitto } from "../../support/servers/mosquitto.ts";

const run = promisify(execFile);

/** An authority, and what it has signed for a broker and a client. */
async function makeAuthority(): Promise<{ folder: string; files: Record<string, string> }> {
  const folder = await mkdtemp(join(tmpdir(), "interlock-authority-"));
  const openssl = (...args: string[]) => run("openssl", args, { cwd: folder });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  for (const name of ["ca", "other"]) {
    await openssl("req", "-x509", ...key, "-keyout", `${name}.key`, "-out", `${name}.pem`, "-subj", `/CN=${name}`);
  }
  await writeFile(join(folder, "names"), "subjectAltName=IP:127.0.0.1\n");
  for (const name of ["broker", "car"]) {
    await openssl("req", ...key.slice(0, 5), "-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=${name}`);
    await openssl(
      "x509",
      "-req",
      "-in",
      `${name}.csr`,
      "-CA",
      "ca.pem",
      "-CAkey",
      "ca.key",
      "-CAcreateserial",
      "-days",
      "2",
      "-out",
      `${name}.pem`,
      "-extfile",
      "names",
    );
  }
  const names = ["ca.pem", "other.pem", "broker.pem", "broker.key", "car.pem", "car.key"];
  const texts = await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), "utf8")]));
  return { folder, files: Object.fromEntries(texts) };
}

describeWith(["mosquitto", "openssl"], "interlock mqtt with TLS and passwords", (path) => {
  let node: NodeUnderTest;
  let broker: Mosquitto;
  let authority: Awaited<ReturnType<typeof makeAuthority>>;
  beforeAll(async () => {
    authority = await makeAuthority();
    const passwords = join(authority.folder, "passwords");
    await run("mosquitto_passwd", ["-b", "-c", passwords, "car", "s3cret"]);
    const rules = ["user car", "topic readwrite #", "topic deny secret/#", ""].join("\n");
    node = await NodeUnderTest.start();
    broker = await Mosquitto.start(path, {
      files: { ...authority.files, passwords: await readFile(passwords, "utf8"), rules },
      lines: [
        "allow_anonymous false",
        "password_file FOLDER/passwords",
        "acl_file FOLDER/rules",
        "cafile FOLDER/ca.pem",
        "certfile FOLDER/broker.pem",
        "keyfile FOLDER/broker.key",
        "require_certificate true",
      ],
      clientOptions: (folder) => [
        ...["--cafile", join(folder, "ca.pem"), "--cert", join(folder, "car.pem"), "--key", join(folder, "car.key")],
        ...["-u", "car", "-P", "s3cret"],
      ],
    });
  });
  afterAll(async () => {
    await broker?.stop();
    await node?.stop();
    if (authority) await rm(authority.folder, { recursive: true });
  });

  async function start({ name, ca = "ca.pem", password = "s3cret" }: { name: string; ca?: string; password?: string }) {
    const at = (file: string) => join(broker.folder, file);
    await writeFile(at(`${name}.password`), `${password}\n`, { mode: 0o600 });
    const text = `
broker:
  url: ${broker.url.replace("mqtt:", "mqtts:")}
  username: car
  password_file: ${at(`${name}.password`)}
  ca: ${at(ca)}
  cert: ${at("car.pem")}
  key: ${at("car.key")}
name: ${name}
flags: [{ topic: gear, value: { is: -1 }, floor: u:driver, flag: reverse_gear }, { topic: "secret/gear", value: { is: 1 }, floor: u:driver, flag: secret }]
`;
    const bridge = await MqttBridge.start({ text, url: node.url });
    onTestFinished(() => bridge.remove());
    return bridge;
  }

  test("a bridge with the authority, its certificate and its password takes part", async () => {
    const heard = await broker.listen("interlock/#");
    const bridge = await start({ name: "secure" });
    await expect.poll(() => heard.last("interlock/bridge/secure")).toBe("online");
    await broker.retain("gear", "-1");
    const flags = async () => (await createClient({ baseUrl: node.url }).getFloor("u:driver")).flags;
    await expect.poll(flags).toEqual({ reverse_gear: true });
    // The password is in no line.
    expect(bridge.said).not.toContain("s3cret");
  });

  test("a broker of another authority is not trusted, a wrong password is said, and neither ends the bridge", async () => {
    const other = await start({ name: "other", ca: "other.pem" });
    await expect.poll(() => other.said).toMatch(/the broker is away, and is tried again: .*certificate/);
    const wrong = await start({ name: "wrong", password: "guessed" });
    await expect
      .poll(() => wrong.said)
      .toMatch(/the broker is away, and is tried again: .*([Nn]ot authorized|[Bb]ad user)/);
    // The password is read for each connection.
    await writeFile(join(broker.folder, "wrong.password"), "s3cret\n");
    await expect.poll(() => wrong.said).toContain("the broker is there");
    expect([other.code, wrong.said.includes("guessed")]).toEqual([undefined, false]);
  });

  test("a file of the broker's that is not there is named", async () => {
    const bridge = await start({ name: "lacking", ca: "nowhere.pem" });
    expect(await bridge.ended()).toBe(1);
    expect(bridge.errors).toMatch(/^interlock: \S+nowhere\.pem: the file cannot be read\n$/);
  });
});
