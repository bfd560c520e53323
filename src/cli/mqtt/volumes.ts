/** Volumes of devices: how loud one is that a floor makes quieter. */

/** The scale of a device's volume: `percent` from 0 to 100, `fraction` from 0 to 1. */
export type VolumeScale = "percent" | "fraction";

/** The steps of a scale: devices take whole percents, and fractions of three digits. */
const STEPS: Readonly<Record<VolumeScale, number>> = { percent: 1, fraction: 1_000 };

/**
 * The volume that is so many dB below the device's own, on a linear scale. It is never above its own, and not silent
 * unless the own one is, or the level is -60 dB.
 * @param levelDb -60 to 0
 */
export function volumeAt(own: number, levelDb: number, scale: VolumeScale): number {
  if (levelDb >= 0) return own;
  if (levelDb <= -60) return 0;
  const steps = STEPS[scale];
  const exact = own * 10 ** (levelDb / 20) * steps;
  return Math.min(own, Math.max(Math.round(exact), own > 0 ? 1 : 0) / steps);
}

/** Whether two volumes are the same to a device that rounds. */
export const isSameVolume = (one: number, other: number, scale: VolumeScale): boolean =>
  Math.abs(one - other) * STEPS[scale] <= 1;

export const isVolume = (value: number, scale: VolumeScale): boolean =>
  value >= 0 && value <= (scale === "percent" ? 100 : 1);
