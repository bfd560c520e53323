import { afterAll } from "vitest";

/** Registers functions for the end of the file or suite that calls it, last registered first called. */
export function atEndOfSuite(): (close: () => unknown) => void {
  const closing: (() => unknown)[] = [];
  afterAll(async () => {
    for (const close of closing.toReversed()) await close();
  });
  return (close) => void closing.push(close);
}
