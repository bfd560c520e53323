import { expect, test } from "vitest";
import { matrixText } from "../../../src/cli/check/matrix-text.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

/**
 * Android Automotive decides by a fixed matrix of audio contexts, holder × challenger. R: the challenger is rejected.
 * E: it gets the focus and the holder loses it. C: both are heard. The values are those of Android 13, without the
 * context INVALID.
 */
const CONTEXTS = [
  ...["music", "navigation", "voice_command", "call_ring", "call", "alarm", "notification", "system_sound"],
  ...["emergency", "safety", "vehicle_status", "announcement"],
] as const;
const ANDROID: Readonly<Record<(typeof CONTEXTS)[number], string>> = {
  music: "E C E E E E C C E C C E",
  navigation: "C C E C E C C C E C C C",
  voice_command: "C R C E E R R R E C C R",
  call_ring: "R C C C C R R C E C C R",
  call: "R C R C C C C R C C C R",
  alarm: "C C E E E C C C E C C R",
  notification: "C C E E E C C C E C C C",
  system_sound: "C C E E E C C C E C C C",
  emergency: "R R R R C R R R C C R R",
  safety: "C C C C C C C C C C C C",
  vehicle_status: "C C C C C C C C E C C C",
  announcement: "E C E E E E C C E C C E",
};
type Context = (typeof CONTEXTS)[number];
type Cell = "R" | "E" | "C";

const cellOf = (holder: Context, challenger: Context) =>
  ANDROID[holder].split(" ")[CONTEXTS.indexOf(challenger)] as Cell;

/** The pair's two cells, for the first context as holder and as challenger. */
const pairOf = (one: Context, other: Context) => cellOf(one, other) + cellOf(other, one);

/**
 * One agent per context. Two contexts that are concurrent either way are heard together; two that are exclusive both
 * ways replace one another; otherwise the one that gets the focus has the higher priority. The priority is the length
 * of the longest chain of contexts below it.
 */
function makeAndroid() {
  const isTogether = (one: Context, other: Context) => pairOf(one, other).includes("C");
  const isEqual = (one: Context, other: Context) => pairOf(one, other) === "EE";
  const rankOf = (context: Context, seen: readonly Context[] = []): number => {
    if (seen.includes(context)) throw new Error(`Android ranks ${[...seen, context].join(" below ")}`);
    const equals = CONTEXTS.filter((other) => other === context || isEqual(context, other));
    const below = equals.flatMap((each) => CONTEXTS.filter((other) => pairOf(other, each) === "ER"));
    return Math.max(0, ...below.map((other) => rankOf(other, [...seen, context]) + 1));
  };
  return makeCatalog(
    CONTEXTS.map((name) => ({
      name,
      priority: 10 * rankOf(name),
      when_preempted: "duck",
      when_blocked: "duck",
      beneath: Object.fromEntries(CONTEXTS.filter((other) => isTogether(name, other)).map((other) => [other, -14])),
      replaces: CONTEXTS.filter((other) => isEqual(name, other)),
    })),
  );
}

const AS_ANDROID: Readonly<Record<string, Cell>> = {
  pauses: "E",
  replaces: "E",
  ducks: "C",
  beneath: "C",
  waits: "R",
  refused: "R",
};

/** Exclusive one way and concurrent the other: in Android the result depends on the order. */
const BY_ORDER = [
  "voice_command asks of music",
  "alarm asks of music",
  "call asks of navigation",
  "call_ring asks of voice_command",
  "call asks of alarm",
  "call asks of notification",
  "call_ring asks of system_sound",
];

test("a catalogue made from Android's interaction matrix decides like Android, except in seven of 144 cells", () => {
  const { pairs } = JSON.parse(matrixText(makeAndroid(), "json")) as {
    pairs: { holder: Context; challenger: Context; effect: string }[];
  };
  expect(pairs).toHaveLength(144);
  const others = pairs.filter(({ holder, challenger, effect }) => AS_ANDROID[effect] !== cellOf(holder, challenger));
  expect(others.map(({ holder, challenger }) => `${challenger} asks of ${holder}`)).toEqual(BY_ORDER);
  // Here the result does not depend on the order: both are heard.
  for (const { effect } of others) expect(AS_ANDROID[effect]).toBe("C");
  // These are all the pairs in which Android's answer depends on the order.
  expect(pairs.filter(({ holder, challenger }) => pairOf(holder, challenger) === "EC")).toEqual(others);
});
