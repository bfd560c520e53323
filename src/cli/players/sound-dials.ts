/**
 * What the bridge turns to make a stream quieter. PipeWire has a factor of its own beside the volume that the user
 * sets; PulseAudio has the user's volume alone.
 */

import { callSound, pactl, type SoundNode, type SoundStream, volumeOf } from "./sound-streams.ts";

/** The values of a stream's dial, and by how many dB the bridge has turned it down. `-Infinity`: silent. */
export interface DialPosition {
  readonly own: readonly number[];
  readonly byDb: number;
}

export interface SoundDial {
  /** The user turns it too, at any time. */
  readonly isUsers: boolean;
  /** @returns the present values; undefined if the stream has ended */
  read(stream: SoundStream): Promise<readonly number[] | undefined>;
  /** @throws Error if the sound server refuses */
  turn(stream: SoundStream, values: readonly number[]): Promise<void>;
  /** The values that are so many dB below others. */
  below(values: readonly number[], db: number): number[];
  /** What holds after somebody else has set the dial to `present`, while the bridge had it at `former`. */
  adopt(present: readonly number[], former: DialPosition): DialPosition;
  /** Whether two values are one, as far as the sound server keeps them. */
  isSame(one: readonly number[], other: readonly number[]): boolean;
}

/** The second factor of a node of PipeWire. The user's own level is another one, and no mixer shows this one. */
const PIPEWIRE_DIAL: SoundDial = {
  isUsers: false,
  async read({ node }) {
    const factor = node && (await nodeFactor(node));
    return factor === undefined ? undefined : [factor];
  },
  async turn({ node }, [factor = 1]) {
    if (node) await callSound("pw-cli", ["set-param", node.id, "Props", `{ volume: ${factor.toFixed(8)} }`]);
  },
  below: (values, db) => values.map((value) => value * 10 ** (db / 20)),
  // A program has set it, as `pw-play --volume` does: from now on this is its own.
  adopt: (present) => ({ own: present, byDb: 0 }),
  isSame: (one, other) => isEach(one, other, (a, b) => Math.abs(a - b) <= 1e-4 * Math.max(a, b, 1e-6)),
};

/** The smallest volume of PulseAudio that is not 0. It is inaudible, and no user sets it. */
const SILENT = 1;

/** The user's volume, where 65536 is 0 dB and the amplitude is the third power. */
export const PULSEAUDIO_DIAL: SoundDial = {
  isUsers: true,
  // Not as it was listed last: that may be from within an earlier change.
  async read({ index }) {
    const volume = await volumeOf(index);
    return volume?.length === 0 ? undefined : volume;
  },
  async turn({ index }, values) {
    await pactl(["set-sink-input-volume", String(index), ...values.map(String)]);
  },
  below: (values, db) =>
    values.map((value) => (value === 0 ? 0 : Math.max(SILENT, Math.round(value * 10 ** (db / 60))))),
  /**
   * The user has moved the volume as it is heard: their own one moves by as much, but never above the louder of the two
   * that they have chosen.
   */
  adopt(present, { own, byDb }) {
    if (byDb === Number.NEGATIVE_INFINITY) return { own: present, byDb: 0 };
    const raised = PULSEAUDIO_DIAL.below(present, -byDb);
    return { own: raised.map((value, at) => Math.min(value, Math.max(present[at]!, own[at] ?? 0))), byDb };
  },
  isSame: (one, other) => isEach(one, other, (a, b) => Math.abs(a - b) <= 2),
};

const isEach = (one: readonly number[], other: readonly number[], is: (a: number, b: number) => boolean): boolean =>
  one.length === other.length && one.every((value, at) => is(value, other[at]!));

/** The dial of the sound server that runs. @throws like `callSound` */
export async function openDial(): Promise<SoundDial> {
  const { server_name: name } = JSON.parse(await pactl(["-f", "json", "info"])) as {
    server_name?: string;
  };
  if (!name?.includes("PipeWire")) return PULSEAUDIO_DIAL;
  for (const command of ["pw-cli", "pw-dump"]) await callSound(command, ["--version"]);
  return PIPEWIRE_DIAL;
}

/** The second factor of a node's volume, 1 for no change; undefined if the node has ended. */
async function nodeFactor({ id, serial }: SoundNode): Promise<number | undefined> {
  const printed = await callSound("pw-dump", [id]);
  const objects = printed.trim() === "" ? [] : (JSON.parse(printed) as ListedNode[]);
  const node = objects.find(({ info }) => String(info?.props?.["object.serial"]) === serial);
  return node?.info?.params?.Props?.find(({ volume }) => volume !== undefined)?.volume;
}

interface ListedNode {
  info?: { props?: Record<string, unknown>; params?: { Props?: { volume?: number }[] } } | null;
}
