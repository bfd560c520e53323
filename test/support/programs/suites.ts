import { describe, inject, test } from "vitest";
import { choose, INSTALL, type Need, type Program, titlesOf, type Way } from "./programs.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** What `find-programs.ts` found before the run. */
    found: import("./programs.ts").Found;
  }
  interface TaskMeta {
    /** The missing programs of a suite that was left out. */
    leftOut?: readonly Program[];
  }
}

/** A program of this machine that is given to the suite by its path, or a server that the suite starts. */
export interface StartedNeed<S = unknown, O = never> extends Need {
  start(way: Way, at: string, options?: O): Promise<S>;
}

type Given<N> = N extends StartedNeed<infer S, infer O> ? (options?: O) => Promise<S> : string;
type AllGiven<N extends readonly unknown[]> = { [I in keyof N]: Given<N[I]> };

/**
 * A suite that needs programs: it gets the path of each, or a function that starts it. All are asked for before any is
 * started, and nothing else gives them to a test. If one is missing, the suite is left out by name; where `CI` is set
 * it fails.
 */
export function describeWith<const N extends readonly (Program | StartedNeed<unknown, never>)[]>(
  needs: N,
  name: string,
  suite: (...given: AllGiven<N>) => void,
  timeoutMs?: number,
): void {
  const options = timeoutMs === undefined ? {} : { timeout: timeoutMs };
  give(needs, name, (...given) => void describe(name, options, () => suite(...given)));
}

/** The same for one test. */
export function testWith<const N extends readonly (Program | StartedNeed<unknown, never>)[]>(
  needs: N,
  name: string,
  run: (...given: AllGiven<N>) => Promise<void>,
  timeoutMs?: number,
): void {
  give(needs, name, (...given) => void test(name, () => run(...given), timeoutMs));
}

function give<const N extends readonly (Program | StartedNeed<unknown, never>)[]>(
  needs: N,
  name: string,
  define: (...given: AllGiven<N>) => void,
): void {
  const asked = needs.map((need): Need => (typeof need === "string" ? { program: need, ways: ["machine"] } : need));
  const choice = choose(asked, inject("found"), Boolean(process.env["CI"]));
  if (choice.act !== "run") return leaveOut(name, choice);
  const given = needs.map((need, index) => {
    const { way, at } = choice.ways[index]!;
    return typeof need === "string" ? at : (options?: never) => need.start(way, at, options);
  });
  define(...(given as AllGiven<N>));
}

function leaveOut(name: string, { act, missing }: { act: "leave out" | "fail"; missing: readonly Program[] }): void {
  const title = `${name} (needs ${titlesOf(missing).join(", ")})`;
  // Skipped while it runs: at the end of a file in which no test runs, vitest does not call what stops its nodes.
  if (act === "leave out") return void test(title, { meta: { leftOut: missing } }, ({ skip }) => skip());
  test(title, () => {
    throw new Error(
      `${name} was not tested: ${titlesOf(missing).join(", ")} missing. ${INSTALL} installs all of them.`,
    );
  });
}
