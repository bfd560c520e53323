import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";

/**
 * Synthesise words with espeak-ng, the car's voice. The text goes to its input, so that no text is read as an option or
 * a command.
 */
export async function synthesise(words: string, file: string): Promise<string> {
  await run("espeak-ng", ["--stdin", "-w", file], words);
  return file;
}

/** Synthesise the driver's words with flite: pocketsphinx recognises flite's voices, but not those of espeak-ng. */
export async function speakAsDriver(words: string, folder: string): Promise<string> {
  const script = join(folder, "driver.txt");
  const file = join(folder, "driver.wav");
  await writeFile(script, words);
  await run("flite", ["-voice", "slt", "-f", script, "-o", file]);
  return file;
}

/**
 * Recognise what the driver said.
 *
 * @param recording 16-bit samples, mono, 16 kHz, without a header (`.raw`)
 * @param grammar a file in JSGF, the JSpeech Grammar Format (W3C note of 5 June 2000)
 * @returns one of the grammar's sentences, or undefined if none was recognised
 */
export async function recognise(recording: string, grammar: string): Promise<string | undefined> {
  const options = ["-infile", recording, "-jsgf", grammar, "-logfn", "/dev/null"];
  const sentences = (await run("pocketsphinx_continuous", options)).split("\n").filter((line) => line.trim() !== "");
  return sentences.at(-1)?.trim();
}

/** @throws Error if the program is missing or fails */
async function run(program: string, options: readonly string[], input = ""): Promise<string> {
  const child = spawn(program, options, { stdio: ["pipe", "pipe", "ignore"] });
  child.stdin.on("error", () => {}).end(input);
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
  if (code !== 0) throw new Error(`${program} ended with code ${code}`);
  return output;
}
