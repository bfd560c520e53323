import { startTransition, useCallback, useEffect, useRef, useState } from "react";
import { Watchers } from "../../src/client/watchers.ts";
import { type Address, replaceAddress } from "../shell/address.ts";

/** The moment, the span and the filter in the address. */
export interface Moment {
  /** The number of an event in the log; undefined: now. */
  at: number | undefined;
  /** What the address has as `at`, as it is there. Undefined after a movement. */
  written?: { at: string; epoch: string | undefined } | undefined;
  /** Undefined: the whole log. In ms since 1970. */
  span: { from: number; to: number } | undefined;
  /** The shown kind of events; undefined: all. */
  only: string | undefined;
  /** Whether gaps without events are folded. */
  isFolded: boolean;
}

/**
 * The delay after the last movement before the address is changed, in ms: browsers refuse a page that changes its
 * address in each frame.
 */
const QUIET_MS = 200;

/** The moment that was chosen last, while the page still shows an earlier choice. */
export class AwaitedMoment {
  #moment: Moment | undefined;
  readonly #watchers = new Watchers();
  readonly subscribe = this.#watchers.subscribe;

  /** Undefined if the page shows the moment that was chosen last. */
  get moment(): Moment | undefined {
    return this.#moment;
  }

  set moment(moment: Moment | undefined) {
    this.#moment = moment;
    this.#watchers.notify();
  }
}

interface ShownMoment {
  moment: Moment;
  awaited: AwaitedMoment;
  move: (next: Partial<Moment>) => void;
}

/**
 * The moment of the address, and a function that moves it. While the user scrubs, the page follows, and the address at
 * the end. All of the page is rendered once for a moment, and not at first what is urgent: a second rendering in the
 * same frame would begin the first one again, and lay out and paint the page twice.
 * @param write the address of a moment
 */
export function useMoment(address: Address, write: (moment: Moment) => string): ShownMoment {
  const { hash } = address;
  const [awaited] = useState(() => new AwaitedMoment());
  const [moved, setMoved] = useState<{ hash: string; moment: Moment }>();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // Following a link, or going back, ends an unfinished movement.
  const moment = moved?.hash === hash ? moved.moment : momentOf(address);
  const latest = useRef({ hash, moment, write });
  useEffect(() => {
    if (latest.current.hash !== hash) {
      clearTimeout(timer.current);
      awaited.moment = undefined;
    }
    if (awaited.moment === moment) awaited.moment = undefined;
    latest.current = { hash, moment, write };
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  const move = useCallback(
    (next: Partial<Moment>) => {
      const { hash, moment } = latest.current;
      const to = { ...(awaited.moment ?? moment), ...next, written: undefined };
      awaited.moment = to;
      startTransition(() => setMoved({ hash, moment: to }));
      clearTimeout(timer.current);
      timer.current = setTimeout(() => {
        const { hash, write } = latest.current;
        // A link was followed in the meantime: its address contains the moment.
        if (location.hash !== hash) return;
        replaceAddress(write(to));
        latest.current.hash = location.hash;
        setMoved({ hash: location.hash, moment: to });
      }, QUIET_MS);
    },
    [awaited],
  );
  return { moment, awaited, move };
}

const FLOOR_SEQ = /^\d{1,15}$/;
/** The number of an event, or a position of the API: a number after the epoch of its store. */
const POSITION = /^(?:([a-z0-9]{1,6})\.)?(\d{1,15})$/;

function momentOf({ query }: Address): Moment {
  const read = (name: string) => {
    const value = query.get(name);
    return value !== null && FLOOR_SEQ.test(value) ? Number(value) : undefined;
  };
  const [from, to] = [read("from"), read("to")];
  const at = query.get("at");
  const [, epoch, floorSeq] = POSITION.exec(at ?? "") ?? [];
  return {
    at: floorSeq === undefined ? undefined : Number(floorSeq),
    written: at === null ? undefined : { at, epoch },
    span: from !== undefined && to !== undefined && from < to ? { from, to } : undefined,
    only: query.get("only") ?? undefined,
    isFolded: query.get("fold") === "yes",
  };
}
