import { useCallback, useEffect, useRef } from "react";
import type { AwaitedMoment, Moment } from "./moment-address.ts";

interface Choice {
  /** The moment that the links of the page contain. */
  moment: Moment;
  awaited: AwaitedMoment;
  /** The part of an address that names a moment. */
  searchAt: (moment: Moment) => string;
}

/**
 * A function that follows a link to a view. Links contain the moment that the page shows; one that is followed while
 * another moment is awaited leads to that moment. This also applies to links that are clicked.
 */
export function useFollow({ moment, awaited, searchAt }: Choice): (link: string) => void {
  const latest = useRef({ moment, searchAt });
  useEffect(() => {
    latest.current = { moment, searchAt };
  });
  const carry = useCallback(
    (link: string): string => {
      const { moment, searchAt } = latest.current;
      const [path = "", search] = link.split("?", 2);
      // Other links name a moment of their own.
      const isCarrying = (search === undefined ? "" : `?${search}`) === searchAt(moment);
      return awaited.moment && isCarrying ? path + searchAt(awaited.moment) : link;
    },
    [awaited],
  );
  const follow = useCallback(
    (link: string) => {
      location.hash = carry(link);
    },
    [carry],
  );
  useEffect(() => {
    const press = (event: MouseEvent) => {
      const { target, defaultPrevented, button, ctrlKey, metaKey, shiftKey, altKey } = event;
      const isElsewhere = button !== 0 || ctrlKey || metaKey || shiftKey || altKey;
      if (defaultPrevented || isElsewhere || !(target instanceof Element)) return;
      const link = target.closest('a[href^="#/"]')?.getAttribute("href");
      if (!link || carry(link) === link) return;
      event.preventDefault();
      follow(link);
    };
    document.addEventListener("click", press);
    return () => document.removeEventListener("click", press);
  }, [carry, follow]);
  return follow;
}
