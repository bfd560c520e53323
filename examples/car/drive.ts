import { once } from "node:events";
import { type Car, GRAMMAR, type Program } from "./car.ts";
import { FloorWatch } from "./floor-watch.ts";
import { type Meter, SILENCE_DB } from "./sound/meter.ts";
import { SONG_LEVEL } from "./sound/song.ts";
import { speakAsDriver } from "./sound/speech.ts";

/** How far a measured level may be from the session's level, in dB. */
const TOLERANCE_DB = 0.5;
/** The level above which a voice counts as audible, in dB of full scale. */
const AUDIBLE_DB = -45;

/** A level that was measured at a sink. */
export interface Measurement {
  when: string;
  sink: string;
  /** What the sessions' states require. */
  expected: string;
  /** In dB of full scale; `-Infinity` for silence. */
  level: number;
}

export interface Drive {
  measurements: Measurement[];
  /** The driver's sentences, as recognised. */
  heard: string[];
  /** Time from the death of a prompt's program until the music has its own volume again, in ms. */
  recoveredMs: number;
}

/**
 * Play a drive: music; a prompt over the music; a call, and a prompt in the call; the driver, who speaks over the
 * music; the assistant's answer; and a prompt whose program is killed while it speaks.
 *
 * @throws Error if a sink does not have the level that its sessions' states require within 20 s
 */
export async function playDrive(car: Car, print: (line: string) => void): Promise<Drive> {
  const measurements: Measurement[] = [];
  const scene = (title: string) => print(`\n${title}`);
  const measure = async (when: string, meter: Meter, expected: string, test: (level: number) => boolean) => {
    const level = await meter.until(`${expected} ${when}`, test);
    measurements.push({ when, sink: meter.sink, expected, level });
    print(`    ${meter.sink}: ${level < SILENCE_DB ? "silent" : `${level.toFixed(1)} dB`} (${expected})`);
    return level;
  };
  const music = car.meter("music");
  const isSilent = (level: number) => level < SILENCE_DB;
  const isAudible = (level: number) => level > AUDIBLE_DB;

  const isAt = (lowered: number) => (level: number) => Math.abs(level - SONG_LEVEL - lowered) < TOLERANCE_DB;

  scene("Music alone");
  using floor = new FloorWatch(car.client, `u:${car.userId}`, (line) => print(`  ${line}`));
  car.playMusic();
  await floor.until("music_agent", "active");
  await measure("alone", music, "its own volume", isAt(0));

  scene("A prompt over the music");
  const prompter = car.start("prompter", "In two hundred meters, turn left, and then keep to the right lane.");
  await floor.until("prompt_agent", "active");
  await Promise.all([
    measure("under a prompt", music, "14 dB quieter", isAt(-14)),
    measure("over the music", car.meter("voice"), "heard", isAudible),
  ]);
  await exitOf(prompter);
  await measure("after the prompt", music, "its own volume", isAt(0));

  scene("The driver speaks over the music");
  const listener = car.start("listener", GRAMMAR);
  const heard: string[] = [];
  const hear = async (words: string) => {
    const file = await speakAsDriver(words, car.folder);
    const listening = lineOf(listener, "listening");
    listener.child.stdin?.write("press\n");
    await listening;
    await car.speak(file);
    const sentence = lineOf(listener, "heard ");
    listener.child.stdin?.write("release\n");
    heard.push((await sentence).slice("heard ".length));
    print(`  The driver said: ${heard.at(-1)}`);
  };
  const lowered = measure("under the driver's words", music, "24 dB quieter", isAt(-24));
  await Promise.all([hear("call home"), lowered]);

  scene("A call, and a prompt in the call");
  const phone = car.playCall();
  await floor.until("phone_agent", "active");
  await Promise.all([
    measure("in a call", music, "silent", isSilent),
    measure("in a call", car.meter("phone"), "heard", isAudible),
  ]);
  const inCall = car.start("prompter", "Keep to the left lane, and follow the road for two kilometers.");
  await floor.until("prompt_agent", "ducked");
  await Promise.all([
    measure("in the call", car.meter("voice"), "heard", isAudible),
    measure("under a prompt in the call", music, "silent", isSilent),
    measure("beside a prompt", car.meter("phone"), "heard", isAudible),
  ]);
  await exitOf(inCall);
  await hear("hang up");
  await phone.end("SIGTERM");
  await measure("after the call", music, "its own volume", isAt(0));

  scene("The assistant answers over the music");
  await hear("what is the weather like");
  const assistant = car.start("assistant", heard.at(-1)!);
  await Promise.all([
    measure("under the assistant", music, "14 dB quieter", isAt(-14)),
    measure("over the music", car.meter("voice"), "heard", isAudible),
  ]);
  await exitOf(assistant);
  await measure("after the reply", music, "its own volume", isAt(0));

  scene("A prompt's program is killed while it speaks");
  const killed = car.start("prompter", `${"Keep to the left lane. ".repeat(12)}`);
  await floor.until("prompt_agent", "active");
  await measure("under the prompt", music, "14 dB quieter", isAt(-14));
  await killed.end("SIGKILL");
  const killedAt = performance.now();
  await measure("after its program was killed", music, "its own volume", isAt(0));
  const recoveredMs = performance.now() - killedAt;
  print(`  The music came back ${(recoveredMs / 1_000).toFixed(1)} s after the program was killed.`);

  return { measurements, heard, recoveredMs };
}

async function exitOf({ child }: Program): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  if (child.exitCode !== 0) throw new Error(`${child.spawnargs.join(" ")} ended with code ${child.exitCode}`);
}

/** The program's next line with this beginning. */
async function lineOf({ lines }: Program, start: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const take = (line: string) => line.startsWith(start) && resolve(line);
  const end = () => reject(new Error(`the program ended before it printed ${start}`));
  lines.on("line", take).once("close", end);
  return promise.finally(() => lines.off("line", take).off("close", end));
}
