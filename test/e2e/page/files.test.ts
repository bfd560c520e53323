import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { buildPage } from "../../support/browsers/built-page.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const MAX_SCRIPT_BYTES = 200 * 1_024;

const folder = await buildPage();
const node = await NodeUnderTest.start({ pageFolder: folder });
afterAll(() => node.stop());
const names = readdirSync(join(folder, "assets"));
const scripts = names.filter((name) => /\.js(?:\.gz)?$/.test(name));
const script = names.find((name) => /^index-.*\.js\.gz$/.test(name))!.replace(/\.gz$/, "");

describe("the page's files", () => {
  test("the page's files are served with a policy that allows nothing inline and nothing from elsewhere", async () => {
    const { status, headers, text } = await node.get("/");
    expect(status).toBe(200);
    expect(headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(headers["content-security-policy"]).toMatch(/default-src 'none'; script-src 'self'; style-src 'self'/);
    expect(headers["content-security-policy"]).not.toMatch(/unsafe|https?:|\*/);
    expect(headers["x-content-type-options"]).toBe("nosniff");
    expect(text).not.toMatch(/<style|style=|<script(?![^>]*src=)/);
    expect(text).not.toMatch(/(?:src|href)="(?!\.\/)/);
  });

  test("the page's files are requested again at the entry only, and not sent when nothing changed", async () => {
    const { headers } = await node.get("/");
    expect(headers["cache-control"]).toBe("no-cache");
    const again = await node.get("/", { headers: { "If-None-Match": headers.etag } });
    expect([again.status, again.text]).toEqual([304, ""]);
    const asset = await node.get(`/assets/${script}`);
    expect(asset.headers["cache-control"]).toBe("public, max-age=31536000, immutable");
  });

  test("the page's files are sent in the best encoding that the client accepts", async () => {
    const plain = (await node.get(`/assets/${script}`)).bytes;
    expect(plain.equals(gunzipSync(readFileSync(join(folder, "assets", `${script}.gz`))))).toBe(true);
    for (const [accept, encoding, decode] of [
      ["gzip, deflate, br", "br", brotliDecompressSync],
      ["gzip;q=0.5, br;q=0", "gzip", gunzipSync],
    ] as const) {
      const { headers, bytes } = await node.get(`/assets/${script}`, { headers: { "Accept-Encoding": accept } });
      expect(headers["content-encoding"]).toBe(encoding);
      expect(headers.vary).toMatch(/accept-encoding/i);
      expect(decode(bytes).equals(plain)).toBe(true);
    }
  });

  test.each(["/assets/none.js", "/assets/..%2f..%2fpackage.json", "/assets/../index.html", `/assets/${script}.br`])(
    "a file that was not built is not served: %s",
    async (path) => {
      const { status, body } = await node.get(path);
      expect([status, body.errorCode]).toEqual([404, "not_found"]);
    },
  );

  test("a page that was not built is reported in a sentence that names the command", async () => {
    const bare = await NodeUnderTest.start({ pageFolder: join(folder, "nowhere") });
    const { status, body } = await bare.get("/");
    await bare.stop();
    expect([status, body.errorCode]).toEqual([404, "not_found"]);
    expect(body.error).toContain("npm run build:page");
  });

  test("the page's files are not there plain if they are there compressed", () => {
    const plain = names.map((name) => name.replace(/\.(?:br|gz)$/, ""));
    expect(names.filter((name) => plain.filter((each) => each === name).length > 1)).toEqual([]);
    expect(names).toContain(`${script}.br`);
  });

  test("the page's scripts together are below 200 kB compressed", () => {
    const sizes = scripts.map((name) => readFileSync(join(folder, "assets", name)).length);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(MAX_SCRIPT_BYTES);
  });
});
