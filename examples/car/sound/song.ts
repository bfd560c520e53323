import { writeFile } from "node:fs/promises";
import { SAMPLE_RATE } from "./sound-server.ts";

const SECONDS = 20;
/** A chord of A major, in Hz. Whole numbers, so that the loop has no click. */
const CHORD = [220, 275, 330];
/** The amplitude of each tone; full scale is 1. */
const AMPLITUDE = 0.12;
/** The level of the song at its own volume: its root mean square, in dB of full scale. */
export const SONG_LEVEL = 10 * Math.log10((CHORD.length * AMPLITUDE ** 2) / 2);

/**
 * Write a song of one chord as a WAV file. Its level is the same at every moment, so that measurements can be compared.
 */
export async function writeSong(file: string): Promise<string> {
  const count = SAMPLE_RATE * SECONDS;
  const samples = Buffer.alloc(count * 2);
  for (let at = 0; at < count; at += 1) {
    const value = CHORD.reduce((sum, hz) => sum + AMPLITUDE * Math.sin((2 * Math.PI * hz * at) / SAMPLE_RATE), 0);
    samples.writeInt16LE(Math.round(value * 32_767), at * 2);
  }
  await writeFile(file, Buffer.concat([wavHeader(samples.length), samples]));
  return file;
}

/** The header of a WAV file with 16-bit samples of one channel. */
function wavHeader(bytes: number): Buffer {
  const header = Buffer.alloc(44);
  header.write("RIFF", 0);
  header.writeUInt32LE(36 + bytes, 4);
  header.write("WAVEfmt ", 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(SAMPLE_RATE, 24);
  header.writeUInt32LE(SAMPLE_RATE * 2, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write("data", 36);
  header.writeUInt32LE(bytes, 40);
  return header;
}
