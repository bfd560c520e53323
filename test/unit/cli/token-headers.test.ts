import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { tokenHeaders } from "../../../src/cli/node-client.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

test("a token in a file is read for each request, so that another one counts at once", async () => {
  const { folder } = await makeFolder(onTestFinished);
  const path = join(folder, "token");
  const headers = tokenHeaders({ INTERLOCK_TOKEN_FILE: path });
  await expect(headers()).rejects.toMatchObject({ code: "unauthorized", message: expect.stringContaining(path) });
  for (const token of ["first", "second"]) {
    await writeFile(path, `${token}\n`);
    expect(await headers()).toEqual({ Authorization: `Bearer ${token}` });
  }
  await writeFile(path, "\n");
  expect(await headers()).toEqual({});
  expect(await tokenHeaders({ INTERLOCK_TOKEN: "itself", INTERLOCK_TOKEN_FILE: path })()).toEqual({
    Authorization: "Bearer itself",
  });
});
