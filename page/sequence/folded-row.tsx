import { clockOf } from "../moment/moment-text.ts";
import { LineText } from "../parts/event-text.tsx";
import { useWords } from "../words/words.tsx";
import { type NameOf, toneOf, useExchangeLine } from "./exchange-line.ts";
import { type Column, type Exchange, placeIn } from "./exchanges.ts";
import styles from "./folded-row.module.css";

/** The height of a row, in px. */
export const FOLDED_PX = 52;

export interface ExchangeRowProps {
  columns: readonly Column[];
  nameOf: NameOf;
  exchange: Exchange;
  isNow: boolean;
  onChoose: () => void;
}

/** A message on a narrow screen: its two parties by name, all columns as dots, and its text below. */
export function FoldedRow({ exchange, columns, nameOf, isNow, onChoose }: ExchangeRowProps) {
  const { say, language } = useWords();
  const { from, to, at } = exchange;
  const [start, end] = [placeIn(columns, from), placeIn(columns, to)];
  const line = useExchangeLine(exchange);
  const partOf = (place: number) =>
    place === start || place === end
      ? "end"
      : place > Math.min(start, end) && place < Math.max(start, end)
        ? "way"
        : "off";
  return (
    <button
      type="button"
      className={styles["row"]}
      data-tone={toneOf(exchange)}
      aria-current={isNow ? "true" : undefined}
      onClick={onChoose}
    >
      <time>{clockOf(at, language, true)}</time>
      <span
        className={styles["dots"]}
        role="img"
        aria-label={say("sequence.fromto", { from: nameOf(from), to: nameOf(to) })}
      >
        {columns.map((_, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a dot is its place.
          <i key={place} data-part={partOf(place)} />
        ))}
      </span>
      <b aria-hidden="true">{`${nameOf(from)} → ${nameOf(to)}`}</b>
      <span className={styles["text"]}>
        <LineText line={line} />
      </span>
    </button>
  );
}
