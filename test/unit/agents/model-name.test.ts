import fc from "fast-check";
import { expect, test } from "vitest";
import { modelNameOf } from "../../../src/agents/tools/model-name.ts";

const server = fc.stringMatching(/^[ab_-]{1,4}$/);
const tool = fc.oneof(fc.stringMatching(/^[ab_./-]{0,6}$/), fc.string({ maxLength: 80 }));

test("two tools have two names", () => {
  fc.assert(
    fc.property(server, tool, server, tool, (server1, tool1, server2, tool2) => {
      fc.pre(server1 !== server2 || tool1 !== tool2);
      expect(modelNameOf(server1, tool1)).not.toBe(modelNameOf(server2, tool2));
    }),
    { numRuns: 20_000 },
  );
});

test("every provider accepts a name, and none of Interlock's own tools has it", () => {
  fc.assert(
    fc.property(server, fc.string({ unit: "binary" }), (one, name) => {
      expect(modelNameOf(one, name)).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect(modelNameOf(one, name)).toContain("_");
    }),
  );
});

test("a name is plain where it stands for one tool alone, and no server can make another's mark its own", () => {
  expect(modelNameOf("files", "read_file")).toBe("files_read_file");
  const marked = modelNameOf("my_files", "read");
  expect(marked).toMatch(/^my_files_read_[0-9a-f]{16}$/);
  expect(modelNameOf("my", marked.slice("my_".length))).not.toBe(marked);
  expect(modelNameOf("my-files", "read.it")).toMatch(/^my-files_read_it_[0-9a-f]{16}$/);
  expect(modelNameOf("a", "x".repeat(100))).toMatch(/^a_x{45}_[0-9a-f]{16}$/);
});
