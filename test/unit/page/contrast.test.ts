import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

/** WCAG 2.2, AA: the contrast of text, and of shapes that carry meaning. */
const TEXT = 4.5;
const SHAPE = 3;

const css = readFileSync(new URL("../../../page/tokens.css", import.meta.url), "utf8");
const tokens = [...css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)];
const themes = [2, 3].map((group) => new Map(tokens.map((token) => [token[1]!, token[group]!])));

const SURFACES = ["ground", "surface", "sunken"];
const TINTS = ["t-created", "t-idle", "t-running", "t-waiting", "t-failed", "t-paused"];
const pairs = (inks: readonly string[], grounds: readonly string[], least: number) =>
  inks.flatMap((ink) => grounds.map((ground) => ({ ink, ground, least })));

const PAIRS = [
  ...pairs(["ink", "ink-2"], [...SURFACES, ...TINTS], TEXT),
  ...pairs(["accent"], [...SURFACES, "t-running"], TEXT),
  ...pairs(["on-accent"], ["accent"], TEXT),
  ...["idle", "running", "waiting", "failed", "paused"].flatMap((state) => pairs([`s-${state}`], [`t-${state}`], TEXT)),
  ...pairs(["s-failed"], ["ground", "surface"], TEXT),
  ...pairs([...[...themes[0]!.keys()].filter((name) => name.startsWith("s-")), "edge"], ["ground", "surface"], SHAPE),
];

test.each([
  { theme: "light", colours: themes[0]! },
  { theme: "dark", colours: themes[1]! },
])("every colour of text and shapes has enough contrast with its background: $theme", ({ colours }) => {
  expect(colours.size).toBeGreaterThan(20);
  const faint = PAIRS.map(({ ink, ground, least }) => ({
    pair: `${ink} on ${ground}`,
    least,
    contrast: contrast(colours.get(ink)!, colours.get(ground)!),
  })).filter(({ contrast, least }) => !(contrast >= least));
  expect(faint).toEqual([]);
});

function contrast(one: string, other: string): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** Relative luminance, as WCAG defines it. */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
