/** `run_as` with the rights that `deploy/run-as.yaml` gives a worker for it, and no others. */

import { randomUUID } from "node:crypto";
import { chmod, chown, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { gone } from "../../support/agents/processes.ts";
import { create, messagesOf, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { documentsOf } from "../../support/documents/deployment.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { testWith } from "../../support/programs/suites.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

describe.skipIf(process.getuid?.() !== 0)("a worker with the rights of run-as.yaml", () => {
  testWith(
    ["setpriv"],
    "starts a program as its own user, reads its secrets, which the program cannot, and ends it with all it started",
    async (setpriv) => {
      const { folder, remove } = await makeFolder();
      onTestFinished(remove);
      // As the image's user has it, beside the database that the worker writes.
      const secret = join(folder, "secret");
      await writeFile(secret, "hush-hush");
      await chmod(secret, 0o400);
      await chown(secret, 1_000, 1_000);
      await chmod(folder, 0o755);
      const tag = `tag-${randomUUID()}`;
      const script = `/usr/bin/id -u; echo "$SECRET"; cat ${secret} || true; /usr/bin/setsid /bin/sleep 600 >/dev/null 2>&1 &`;
      const adapter = {
        kind: "command",
        command: "/bin/sh",
        args: ["-c", script],
        cwd: "/",
        set: { TEST_TAG: tag },
        env: ["SECRET"],
        run_as: { uid: 65_533, gid: 65_532 },
      };
      const { worker } = (documentsOf("run-as.yaml")[0] as { services: { worker: { cap_add: string[] } } }).services;
      const rights = worker.cap_add.map((name) => `+${name.toLowerCase()}`).join();
      const prefix = [setpriv, `--bounding-set=-all,${rights}`, "--inh-caps=-all", "--no-new-privs", "--"];
      const installation = await makeInstallation({ agents: [{ name: "program", adapter }] });
      const server = await installation.start({ prefix, settings: { SECRET_FILE: secret } });
      await create(server, "s", "program");
      const reader = await SessionReader.of(server, "s");
      await say(server, "s");
      await reader.has("s", "complete");
      await gone(tag);
      const [, reply] = await messagesOf(server, "s");
      expect(reply?.content).toMatch(/^65533\n\[SECRET\]/);
      expect(reply?.content).not.toContain("hush");
    },
  );
});
