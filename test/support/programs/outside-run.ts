import { findPrograms } from "./find-programs.ts";
import { choose, INSTALL, titlesOf } from "./programs.ts";
import type { StartedNeed } from "./suites.ts";

/** Starts a server for a program that is no test, such as a benchmark. @throws Error if it is missing */
export async function startOutside<S, O>(need: StartedNeed<S, O>): Promise<S> {
  const choice = choose([need], await findPrograms(), true);
  if (choice.act !== "run") throw new Error(`${titlesOf(choice.missing)} is missing. ${INSTALL} installs it.`);
  const [{ way, at } = { way: "machine", at: "" } as const] = choice.ways;
  return await need.start(way, at);
}
