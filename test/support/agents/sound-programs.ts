import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { test } from "vitest";
import { reportUntested } from "../runner/untested.ts";

/** The programs that `examples/car` runs, and the Debian packages that contain them. */
const PACKAGES = {
  mpv: "mpv",
  pulseaudio: "pulseaudio",
  parec: "pulseaudio-utils",
  paplay: "pulseaudio-utils",
  "espeak-ng": "espeak-ng",
  flite: "flite",
  pocketsphinx_continuous: "pocketsphinx and pocketsphinx-en-us",
} as const;

/** Longer than the whole drive: it only ends a test that hangs. */
const TIMEOUT_MS = 180_000;

/** A test that plays sound. Without the programs it is skipped with a message; where `CI` is set it fails. */
export function testWithSound(name: string, run: () => Promise<void>): void {
  const missing = Object.entries(PACKAGES).filter(([program]) => !isInstalled(program));
  if (missing.length === 0) return void test(name, run, TIMEOUT_MS);
  const why = missing.map(([program, from]) => `${program} (Debian's package ${from}) is missing`).join(", ");
  reportUntested(name, why);
}

function isInstalled(program: string): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
