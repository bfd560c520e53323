import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../../support/programs/suites.ts";
import { turn } from "../../support/runner/virtual-clock.ts";
import { makeCertificate } from "../../support/servers/certificate.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { connectTo, placeOf, RedisPlace } from "../../support/servers/redis-place.ts";
import { REDIS_PROCESS } from "../../support/servers/redis-server.ts";
import { perTest } from "../../support/servers/shared-server.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";
import { decode, encode } from "./bus-contract.ts";

// Long enough for the timeout of a server that does not answer.

describeWith([REDIS_PROCESS], "opening a bus over Redis", (startRedis) => {
  const startOne = perTest(startRedis);
  const startGuarded = () => startOne({ password: "open%sesame" });

  /** A message travels over a bus on these servers. */
  async function expectHeard(url: string): Promise<void> {
    const bus = await placeOf(url).connect();
    const received = Promise.withResolvers<string>();
    await bus.subscribe("topic", (message) => received.resolve(decode(message)));
    await bus.publish("topic", encode("hello"));
    expect(await received.promise).toBe("hello");
  }

  /** The error when a bus on these servers cannot be opened. */
  const refusal = (...urls: [string, ...string[]]): Promise<string> =>
    new RedisPlace(...urls).connect().then(
      () => expect.unreachable("it was opened"),
      (error: Error) => `${error.message} ${error.cause ?? ""}`,
    );

  async function openFolder(): Promise<string> {
    const { folder, remove } = await makeFolder();
    onTestFinished(remove);
    return folder;
  }

  test("a bus opens with the server's password; a wrong or missing one is refused with a sentence without it", async () => {
    const { url, port } = await startGuarded();
    await expectHeard(url);
    const wrong = await refusal(`redis://:hunter2@127.0.0.1:${port}`);
    expect(wrong).toMatch(`INTERLOCK_BUS: redis://127.0.0.1:${port} cannot be used: WRONGPASS`);
    expect(wrong).not.toContain("hunter2");
    expect(await refusal(`redis://127.0.0.1:${port}`)).toMatch("cannot be used: NOAUTH");
  });

  test("a Redis user who may not publish, or not subscribe, is refused in a sentence", async () => {
    const server = await startOne();
    const admin = connectTo(server.url);
    await admin.acl("SETUSER", "mute", "on", ">secret", "+@all", "-publish", "~*", "&*");
    await admin.acl("SETUSER", "deaf", "on", ">secret", "+@all", "~*", "resetchannels");
    for (const user of ["mute", "deaf"]) {
      const said = await refusal(`redis://${user}:secret@127.0.0.1:${server.port}`);
      expect(said).toMatch(/^INTERLOCK_BUS: .+ cannot be used: NOPERM/);
      expect(said).not.toContain("secret");
    }
  });

  test("a missing or silent server is reported in a sentence, and the connections to the others are closed", async () => {
    const server = await startOne();
    const gone = await startOne();
    await gone.stop();
    expect(await refusal(server.url, gone.url)).toMatch(
      `INTERLOCK_BUS: ${gone.url} cannot be used: connect ECONNREFUSED 127.0.0.1:${gone.port}`,
    );
    const admin = connectTo(server.url);
    // The connections that were opened to it are closed.
    for (let listening: unknown; listening !== ""; await turn()) {
      listening = await admin.call("CLIENT", "LIST", "TYPE", "pubsub");
    }
    server.freeze();
    expect(await refusal(server.url)).toMatch(`INTERLOCK_BUS: ${server.url} cannot be used: `);
  });

  test("a bus opens through Sentinels to their master, and one reachable Sentinel is enough", async () => {
    const master = await startGuarded();
    const startSentinel = async () => {
      const file = join(await openFolder(), "sentinel.conf");
      await writeFile(file, `sentinel monitor main 127.0.0.1 ${master.port} 1\nsentinel auth-pass main open%sesame\n`);
      return startOne({ config: [file, "--sentinel"] });
    };
    const [frozen, sentinel] = [await startSentinel(), await startSentinel()];
    frozen.freeze();
    const hosts = [await freePort(), frozen.port, sentinel.port].map((port) => `127.0.0.1:${port}`).join();
    await expectHeard(`redis+sentinel://:open%25sesame@${hosts}/main`);
    expect(await refusal(`redis+sentinel://:open%25sesame@${hosts}/other`)).toMatch(
      `INTERLOCK_BUS: redis+sentinel://${hosts}/other cannot be used: `,
    );
  });

  test("a rediss address uses encryption, and the server's certificate is verified", async () => {
    const folder = await openFolder();
    const { keyFile, file, text } = await makeCertificate("openssl", folder);
    const port = await freePort();
    const files = ["--tls-cert-file", file, "--tls-key-file", keyFile, "--tls-ca-cert-file", file];
    await startOne({ config: ["--tls-port", String(port), "--tls-auth-clients", "no", ...files] });
    const url = `rediss://127.0.0.1:${port}`;
    expect(await refusal(url)).toMatch(`INTERLOCK_BUS: ${url} cannot be used: self-signed certificate`);
    const usual = getCACertificates("default");
    onTestFinished(() => setDefaultCACertificates(usual));
    setDefaultCACertificates([...usual, text]);
    await expectHeard(url);
  });
});
