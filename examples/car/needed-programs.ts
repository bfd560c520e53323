import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** The programs that the car starts, and their packages in Debian and Ubuntu. A path is a file that a program loads. */
const NEEDED: readonly (readonly [program: string, aptPackage: string])[] = [
  ["mpv", "mpv"],
  ["/etc/mpv/scripts/mpris.so", "mpv-mpris"],
  ["dbus-daemon", "dbus"],
  ["pulseaudio", "pulseaudio"],
  ["pactl", "pulseaudio-utils"],
  ["espeak-ng", "espeak-ng"],
  ["flite", "flite"],
  ["pocketsphinx_continuous", "pocketsphinx pocketsphinx-en-us"],
];

/** @returns a sentence that says what to install; undefined if nothing is missing */
export function whatToInstall(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const folders = (env["PATH"] ?? "").split(delimiter);
  const isHere = (program: string) => folders.some((folder) => existsSync(join(folder, program)));
  const missing = NEEDED.filter(([program]) => !(program.startsWith("/") ? existsSync(program) : isHere(program)));
  if (missing.length === 0) return undefined;
  const packages = missing.map(([, aptPackage]) => aptPackage).join(" ");
  return `The car lacks ${missing.map(([program]) => program).join(", ")}. On Debian or Ubuntu: apt-get install ${packages}`;
}
