import { useCallback, useEffect, useRef, useState } from "react";
import { type Address, replaceAddress } from "../shell/address.ts";

/** The moment, the span and the filter in the address. */
export interface Moment {
  /** A place in the log; undefined: now. */
  at: number | undefined;
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
const SETTLE_MS = 200;

/**
 * The moment of the address, and a function that moves it. While the user scrubs, the page follows at once, and the
 * address at the end.
 * @param write the address of a moment
 */
export function useMoment(
  address: Address,
  write: (moment: Moment) => string,
): [Moment, (next: Partial<Moment>) => void] {
  const { hash } = address;
  const [moved, setMoved] = useState<{ hash: string; moment: Moment }>();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // Following a link, or going back, ends an unfinished movement.
  const moment = moved?.hash === hash ? moved.moment : momentOf(address);
  const latest = useRef({ hash, moment, write });
  useEffect(() => {
    if (latest.current.hash !== hash) clearTimeout(timer.current);
    latest.current = { hash, moment, write };
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  const move = useCallback((next: Partial<Moment>) => {
    const { hash, moment } = latest.current;
    const to = { ...moment, ...next };
    latest.current.moment = to;
    setMoved({ hash, moment: to });
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      const { hash, moment, write } = latest.current;
      // A link was followed in the meantime: its address contains the moment.
      if (location.hash !== hash) return;
      replaceAddress(write(moment));
      latest.current.hash = location.hash;
      setMoved({ hash: location.hash, moment });
    }, SETTLE_MS);
  }, []);
  return [moment, move];
}

const PLACE = /^\d{1,15}$/;

function momentOf({ query }: Address): Moment {
  const read = (name: string) => {
    const value = query.get(name);
    return value !== null && PLACE.test(value) ? Number(value) : undefined;
  };
  const [from, to] = [read("from"), read("to")];
  return {
    at: read("at"),
    span: from !== undefined && to !== undefined && from < to ? { from, to } : undefined,
    only: query.get("only") ?? undefined,
    isFolded: query.get("fold") === "yes",
  };
}
