import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import styles from "./rows.module.css";
import { useViewport } from "./screen/use-viewport.ts";

interface Props<T> {
  items: readonly T[];
  /** The listed part of the items, from its first up to its end; by default all of them. */
  part?: { first: number; end: number } | undefined;
  /** The height of every row, in px. */
  rowHeight: number;
  /**
   * The key of an item, for items that move or have state. Without it a list that jumps shows other items in the
   * existing elements: none is created or removed.
   */
  keyOf?: (item: T) => string;
  row: (item: T, index: number) => ReactNode;
  /** The list's name, for screen readers. */
  label: string;
  /** Scrolled into view when it changes. */
  shownIndex?: number | undefined;
  /** Stays above the rows; it has a row's height. */
  head?: ReactNode;
  /** Lies behind all rows, with their total height. */
  behind?: ReactNode;
  /** The smallest width of the rows, in px, if they may be wider than the list. */
  width?: number | undefined;
  /** Called when the end of the list comes into view. */
  onEnd?: (() => void) | undefined;
}

/** The visible part of a list. */
interface Seen {
  /** The scroll offset in the listed part, in px. */
  top: number;
  /** In px; 0 until it is measured. */
  height: number;
  /** The first row after the last jump. Rows are placed, and keyed, by their distance from it. */
  origin: number;
  /** The row that was last scrolled into view, and the list's length at that time. */
  shownIndex: number | undefined;
  length: number;
  /** The scroll offset that this requires; undefined after the reader scrolled. */
  scrollTo: number | undefined;
}

const NOT_YET: Seen = { top: 0, height: 0, origin: 0, shownIndex: undefined, length: 0, scrollTo: undefined };

/** Rows above and below the visible ones, for a reader who scrolls. A list that the page scrolls has none. */
const SPARE = 6;
/** In px, until it is measured. */
const LIKELY_HEIGHT = 600;
/** The largest error of the offset at the end of a list, in px, because the browser rounds heights. */
const ROUNDED = 2;

/** A list of any length with only its visible rows in the document. */
export function Rows<T>(props: Props<T>) {
  const { items, part, rowHeight, keyOf, row, label, shownIndex, head, behind, width, onEnd } = props;
  const begin = part?.first ?? 0;
  const length = (part?.end ?? items.length) - begin;
  const box = useRef<HTMLElement>(null);
  const above = useRef<HTMLDivElement>(null);
  // The offset that the page last scrolled to, until the reader scrolls: the browser's events do not tell them apart.
  const moved = useRef<number>(undefined);
  const [known, setSeen] = useState(NOT_YET);
  const measured = useRef(0);
  useViewport(box, ({ scrollTop, clientHeight }) => {
    const height = clientHeight - (above.current?.offsetHeight ?? 0);
    const isOurs = moved.current !== undefined && Math.abs(moved.current - scrollTop) <= ROUNDED;
    if (!isOurs) moved.current = undefined;
    // After the page's own scrolling there is nothing to render.
    if (isOurs && measured.current === height) return;
    measured.current = height;
    setSeen((seen) => {
      const isStill = isOurs || scrollTop === seen.top;
      if (isStill && isRowInView(seen, rowHeight)) return withRowInView({ ...seen, height }, rowHeight);
      if (isOurs) return { ...seen, height };
      return movedTo(scrollTop, { ...seen, height, scrollTo: undefined }, rowHeight);
    });
  });
  // Set during rendering: an effect would first render the rows at the former place again.
  let seen = known;
  if (known.shownIndex !== shownIndex || known.length !== length) {
    const next = { ...known, shownIndex, length };
    seen = isReadElsewhere(known, next, rowHeight) ? next : withRowInView(next, rowHeight);
    setSeen(seen);
  }
  const { top, height, origin, scrollTo } = seen;
  useLayoutEffect(() => {
    if (scrollTo === undefined) return;
    moved.current = scrollTo;
    box.current!.scrollTop = scrollTo;
  }, [scrollTo]);
  const spare = scrollTo === undefined ? SPARE : 0;
  const first = firstRow(top, rowHeight, spare);
  const last = Math.min(length, Math.ceil((top + (height || LIKELY_HEIGHT)) / rowHeight) + spare);
  const isAtEnd = last >= length;
  useLayoutEffect(() => {
    if (isAtEnd && length > 0) onEnd?.();
  }, [isAtEnd, length, onEnd]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
    <section className={styles["box"]} ref={box} tabIndex={0} aria-label={label} data-wide={width !== undefined}>
      {head !== undefined && (
        <div ref={above} className={styles["head"]} style={{ minWidth: width }}>
          {head}
        </div>
      )}
      <div className={styles["all"]} style={{ height: length * rowHeight, minWidth: width }}>
        {behind}
        <ul style={{ transform: `translateY(${origin * rowHeight}px)` }}>
          {items.slice(begin + first, begin + last).map((item, nth) => {
            const index = first + nth;
            const offset = index - origin;
            return (
              <li
                key={keyOf ? keyOf(item) : offset}
                style={{ height: rowHeight, top: offset * rowHeight }}
                aria-setsize={length}
                aria-posinset={index + 1}
              >
                {row(item, index)}
              </li>
            );
          })}
        </ul>
      </div>
    </section>
  );
}

const firstRow = (top: number, rowHeight: number, spare: number): number =>
  Math.max(0, Math.floor(top / rowHeight) - spare);

function movedTo(top: number, seen: Seen, rowHeight: number): Seen {
  const isJump = Math.abs(top - seen.top) > seen.height + 2 * SPARE * rowHeight;
  return { ...seen, top, origin: isJump ? firstRow(top, rowHeight, 0) : seen.origin };
}

function isInView(index: number, { top, height }: Seen, rowHeight: number): boolean {
  const at = index * rowHeight;
  return at >= top && at + rowHeight <= top + height;
}

const isRowInView = (seen: Seen, rowHeight: number): boolean =>
  seen.shownIndex !== undefined && seen.shownIndex >= 0 && isInView(seen.shownIndex, seen, rowHeight);

/** Whether the list only grew while its reader had scrolled away from the shown row: then it stays where it is. */
function isReadElsewhere(before: Seen, { length, shownIndex }: Seen, rowHeight: number): boolean {
  if (before.height === 0 || before.shownIndex === undefined || before.shownIndex < 0) return false;
  const grown = length - before.length;
  return grown > 0 && shownIndex === before.shownIndex + grown && !isInView(before.shownIndex, before, rowHeight);
}

/** Also when the list has lost height to what is above or below it. */
function withRowInView(seen: Seen, rowHeight: number): Seen {
  const { shownIndex, length, height } = seen;
  if (shownIndex === undefined || shownIndex < 0) return seen;
  if (isInView(shownIndex, seen, rowHeight)) return seen;
  const most = Math.max(0, length * rowHeight - height);
  const scrollTo = Math.min(most, Math.max(0, shownIndex * rowHeight - height / 2));
  return { ...movedTo(scrollTo, seen, rowHeight), scrollTo };
}
