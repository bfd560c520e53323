import type { Bus } from "../bus/bus.ts";
import { AppError } from "../protocol/errors.ts";
import { dataFrame, envelopeJson } from "../protocol/frames.ts";
import type { RunEffect } from "../protocol/internal/effect.ts";
import { encodeFloorMessage, floorTopic } from "../protocol/internal/floor-message.ts";
import { flow } from "../shared/flow.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { type Logger, withFields } from "../shared/ports/logger.ts";
import type { BlobStore, StoreEpoch } from "../store/store.ts";
import { RunDriver, type RunDriverOptions } from "./run-driver.ts";
import { runFields } from "./traced-run.ts";

/** What a worker gives the drivers of all its runs. */
export interface DriverWiring {
  bus: Bus;
  store: StoreEpoch & Pick<BlobStore, "getBlob">;
  clock: Clock;
  newId: () => string;
  /** The name of this worker's disk, if workers have separate disks. */
  home?: string | undefined;
  log: Logger;
}

/** The driver of an attempt: it reads images from the store, and streams deltas to the readers of the run's floor. */
export function makeDriver(
  effect: RunEffect,
  { bus, store, clock, newId, home, log }: DriverWiring,
  attempt: Pick<RunDriverOptions, "agent" | "work" | "send" | "onHold" | "onWait">,
): RunDriver {
  const { sessionId, floorId } = effect;
  const topic = floorTopic(store.epoch, floorId);
  return new RunDriver({
    ...attempt,
    sessionId,
    clock,
    newId,
    home,
    log: withFields(log, { ...runFields(effect), attempt: attempt.work.request.attempt }),
    loadImage: async ({ hash }) => {
      const blob = await store.getBlob(sessionId, hash);
      if (!blob) throw new AppError("not_found", "The image was deleted.");
      return blob.bytes;
    },
    stream: (delta) => {
      // Later readers get the text from the store.
      if (!bus.hasSubscribers(topic)) return;
      flow.onHop?.("delta", `${delta.text.length} characters at ${delta.offset}`);
      const json = JSON.stringify(delta);
      const frame = dataFrame(envelopeJson({ type: "delta", json, at: clock.now(), sessionId }));
      void bus.publish(topic, encodeFloorMessage({ kind: "delta", floorId, sessionId, frame }, bus.isLocal));
    },
  });
}
