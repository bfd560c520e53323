import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import styles from "./rows.module.css";
import { useViewport } from "./use-viewport.ts";

interface Props<T> {
  items: readonly T[];
  /** Every row has this height, in px. */
  rowHeight: number;
  keyOf: (item: T, index: number) => string;
  row: (item: T, index: number) => ReactNode;
  /** What the list is, for screen readers. */
  label: string;
  /** Brought into view when it changes. */
  shownIndex?: number | undefined;
  /** Stays above the rows; it has their height. */
  head?: ReactNode;
  /** The width of all rows, in px, where they are wider than the list. */
  width?: number | undefined;
  /** Called when the end of the list comes into view. */
  onEnd?: (() => void) | undefined;
}

/** Rows above and below what is seen. */
const SPARE = 6;

/** A list of any length of which only what is seen is in the document. */
export function Rows<T>({ items, rowHeight, keyOf, row, label, shownIndex, head, width, onEnd }: Props<T>) {
  const { length } = items;
  const box = useRef<HTMLElement>(null);
  const [{ top, height }, setPlace] = useState({ top: 0, height: 600 });
  // Known without asking the browser, which would lay the page out for each answer.
  const seen = useRef({ top: 0, height: 0 });
  useViewport(box, (element) => {
    seen.current = { top: element.scrollTop, height: element.clientHeight };
    setPlace(seen.current);
  });
  useLayoutEffect(() => {
    const element = box.current!;
    if (shownIndex === undefined || shownIndex < 0) return;
    const at = shownIndex * rowHeight;
    const { top, height } = seen.current;
    if (at >= top && at + rowHeight <= top + height) return;
    const most = Math.max(0, length * rowHeight - height);
    seen.current = { top: Math.min(most, Math.max(0, at - height / 2)), height };
    element.scrollTop = seen.current.top;
    setPlace(seen.current);
  }, [shownIndex, rowHeight, length]);
  const first = Math.max(0, Math.floor(top / rowHeight) - SPARE);
  const last = Math.min(items.length, Math.ceil((top + height) / rowHeight) + SPARE);
  const isAtEnd = last >= items.length;
  useLayoutEffect(() => {
    if (isAtEnd && items.length > 0) onEnd?.();
  }, [isAtEnd, items.length, onEnd]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
    <section className={styles["box"]} ref={box} tabIndex={0} aria-label={label} data-wide={width !== undefined}>
      {head !== undefined && (
        <div className={styles["head"]} style={{ width }}>
          {head}
        </div>
      )}
      <ul style={{ height: items.length * rowHeight, width }}>
        {items.slice(first, last).map((item, index) => (
          <li
            key={keyOf(item, first + index)}
            style={{ height: rowHeight, transform: `translateY(${(first + index) * rowHeight}px)` }}
            aria-setsize={items.length}
            aria-posinset={first + index + 1}
          >
            {row(item, first + index)}
          </li>
        ))}
      </ul>
    </section>
  );
}
