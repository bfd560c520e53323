/**
 * The volume of one device, as a pure machine: it says which volume the device is to be set to. The device is never set
 * louder than its user has set it, and a volume that is not one of the bridge's orders is the user's.
 *
 * A device reports its orders in their order, but some are lost, and nothing tells which. So a report answers the
 * oldest order that it can answer: what the device may still report is then always among `sent`, and an equal later
 * order counts as being under way. Whether it is so shows when the volume is ordered once more, which changes nothing.
 */

import { isSameVolume, type VolumeScale, volumeAt } from "./volumes.ts";

/** How many volumes are known as orders. */
const MAX_TOLD = 16;
/** How many orders may be under way. At one each 1.5 s, an older one is lost. */
const MAX_SENT = 64;
/** How often an order is given again to a device that has the volume already, and says nothing of it. */
const MAX_AGAIN = 20;

export interface DeviceVolume {
  readonly scale: VolumeScale;
  /** The user's own volume; undefined: the device has not said it. */
  readonly own: number | undefined;
  /** What the device said last. */
  readonly reported: number | undefined;
  /** Volumes that it was ordered and that are not its own, the newest last. */
  readonly orders: readonly number[];
  /** Orders that the device may still report, the newest last. */
  readonly sent: readonly number[];
  /** The volume that the device has not answered yet, or not so that earlier orders are known to be over. */
  readonly pending: number | undefined;
  /** How often that order was given again. */
  readonly again: number;
  /** What the floor demands, in dB; undefined: not known yet, and the device stays as it is. */
  readonly level: number | undefined;
  /** The user has set it by hand while it was lowered: it stays so until the floor lets it be as loud as ever. */
  readonly isUsers: boolean;
}

export type VolumeEvent =
  | { type: "reported"; volume: number }
  /** -60 to 0. */
  | { type: "level"; level: number }
  /** A while has passed since the order: it is given again. */
  | { type: "order is old" }
  /** The device is gone: what it does next is not yet an answer to an order. */
  | { type: "gone" };

/** What an earlier bridge left of a volume. */
export interface LeftVolume {
  readonly own: number;
  readonly orders: readonly number[];
}

export const newDeviceVolume = (scale: VolumeScale, left?: LeftVolume): DeviceVolume => ({
  scale,
  own: left?.own,
  reported: undefined,
  orders: left?.orders ?? [],
  sent: left?.orders ?? [],
  pending: undefined,
  again: 0,
  level: left ? undefined : 0,
  isUsers: false,
});

/** Take an event. Returns the next machine, and the volume to set now. */
export function stepVolume(volume: DeviceVolume, event: VolumeEvent): [DeviceVolume, number | undefined] {
  const next = noted(volume, event);
  const target = targetOf(next);
  const { pending, reported: said, scale } = next;
  if (target === undefined || said === undefined) return [next, undefined];
  const isOld = event.type === "order is old" && pending !== undefined;
  if (isOld && (next.again < MAX_AGAIN || !isSameVolume(said, target, scale))) return ordered(next, target);
  const now = isOld ? { ...next, pending: undefined, sent: [] } : next;
  // An order that is under way is carried out, whatever the device said before.
  if (isSameVolume(now.pending ?? said, target, scale)) return [settled(now, target), undefined];
  return ordered(now, target);
}

function ordered(volume: DeviceVolume, target: number): [DeviceVolume, number] {
  const orders = [...volume.orders.filter((each) => each !== target), target].slice(-MAX_TOLD);
  const again = volume.pending === target ? volume.again + 1 : 0;
  const sent = [...volume.sent, target].slice(-MAX_SENT);
  return [{ ...volume, pending: target, orders, sent, again }, target];
}

/** What the next bridge has to know. Undefined: the device is as its user has set it. */
export const leftOf = ({ own, orders }: DeviceVolume): LeftVolume | undefined =>
  own === undefined || orders.length === 0 ? undefined : { own, orders };

function noted(volume: DeviceVolume, event: VolumeEvent): DeviceVolume {
  switch (event.type) {
    case "reported":
      return reported(volume, event.volume);
    case "level":
      return { ...volume, level: event.level, isUsers: event.level < 0 && volume.isUsers };
    case "order is old":
      return volume;
    case "gone":
      return { ...volume, reported: undefined, pending: undefined };
  }
}

function reported(volume: DeviceVolume, said: number): DeviceVolume {
  const { own, orders, pending, scale, level } = volume;
  const is = (other: number | undefined) => other !== undefined && isSameVolume(said, other, scale);
  const answered = volume.sent.findIndex(is);
  const sent = volume.sent.slice(answered + 1);
  const next = { ...volume, reported: said, sent };
  if (is(pending) && sent.every(is)) return { ...next, pending: undefined };
  // An echo of an earlier order, or of what it was before the order, or what it was all the time.
  const isUnchanged = volume.reported === undefined || is(volume.reported);
  if (orders.some(is) || ((pending !== undefined || isUnchanged) && is(own))) return next;
  const isUsers = own !== undefined && (level ?? 0) < 0;
  return { ...next, own: said, orders: [...new Set(sent)], pending: undefined, isUsers };
}

/** The volume that the device should have; undefined: as it is. */
function targetOf({ own, level, isUsers, scale }: DeviceVolume): number | undefined {
  if (own === undefined || level === undefined) return undefined;
  return isUsers ? own : volumeAt(own, level, scale);
}

/**
 * At its volume, unless an earlier order may still change it: then it is ordered once more after a while. At its own
 * volume again, nothing of it is the bridge's.
 */
function settled(volume: DeviceVolume, target: number): DeviceVolume {
  const { own, pending, sent, orders, scale } = volume;
  if (pending !== undefined) return volume;
  if (!sent.every((each) => isSameVolume(each, target, scale))) return { ...volume, pending: target, again: 0 };
  return target === own && orders.length > 0 ? { ...volume, orders: [] } : volume;
}
