import { expect, test } from "vitest";
import { decodeEntities } from "../../../page/session/entities.ts";

test("entities in Markdown are characters, and unknown ones stay as they are", () => {
  expect(decodeEntities("a &lt; b &amp;&amp; c &gt; d&nbsp;&#8212; &#x4E2D;")).toBe("a < b && c > d\u00a0— 中");
  expect(decodeEntities("&bogus; &#0; &#x110000; R&D; &constructor;")).toBe(
    "&bogus; &#0; &#x110000; R&D; &constructor;",
  );
  expect(decodeEntities("&amp;lt;")).toBe("&lt;");
});
