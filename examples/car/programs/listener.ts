/**
 * `listener.ts GRAMMAR`: records the driver. Its standard input stands for the button on the steering wheel: the line
 * `press` starts the recording; `release` ends it, and the recognised sentence is printed. Each recording is a session,
 * which lowers the sessions beneath it while the driver speaks.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pipeline } from "node:stream/promises";
import { SAMPLE_RATE } from "../sound/sound-server.ts";
import { recognise } from "../sound/speech.ts";
import { readEnvironment } from "./environment.ts";
import { Participant } from "./participant.ts";

const [, , grammar = ""] = process.argv;
const { client, userId, folder } = readEnvironment();
const recording = join(folder, "microphone.raw");

/**
 * Start a recording.
 *
 * @returns a function that ends it
 */
async function record(): Promise<() => Promise<void>> {
  const format = ["--raw", "--format=s16le", `--rate=${SAMPLE_RATE}`, "--channels=1"];
  const recorder = spawn("parec", ["--device=microphone.monitor", ...format], { stdio: ["ignore", "pipe", "ignore"] });
  const written = pipeline(recorder.stdout, createWriteStream(recording));
  await once(recorder, "spawn");
  return async () => {
    recorder.kill("SIGTERM");
    await written;
  };
}

let listening: { participant: Participant; stop: () => Promise<void> } | undefined;
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "press" && !listening) {
    const stop = await record();
    const participant = await Participant.join(client, "listen_agent", userId, { play: () => {}, pause: () => {} });
    listening = { participant, stop };
    console.log("listening");
  } else if (line === "release" && listening) {
    const { participant, stop } = listening;
    listening = undefined;
    await stop();
    await participant.leave();
    console.log(`heard ${(await recognise(recording, grammar)) ?? "nothing"}`);
  }
}
await listening?.stop();
await listening?.participant.leave();
