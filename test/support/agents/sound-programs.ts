import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { test } from "vitest";
import { reportUntested } from "../runner/untested.ts";

/** The programs that `examples/car` plays with, and the Debian packages that have them. */
const PACKAGES = {
  mpv: "mpv",
  pulseaudio: "pulseaudio",
  parec: "pulseaudio-utils",
  paplay: "pulseaudio-utils",
  "espeak-ng": "espeak-ng",
  flite: "flite",
  pocketsphinx_continuous: "pocketsphinx and pocketsphinx-en-us",
} as const;

/** Longer than any pause of the drive: it only ends what hangs. */
const TIMEOUT_MS = 180_000;

/** A test that makes sound. Without the programs it is skipped and says so; where `CI` is set that is a failure. */
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
