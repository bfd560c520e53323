import { LineText } from "../parts/event-text.tsx";
import { useWords } from "../words/words.tsx";
import { ExchangeButton, type ExchangeRowProps } from "./exchange-button.tsx";
import { useExchangeLine } from "./exchange-line.ts";
import { placeIn } from "./exchanges.ts";
import styles from "./folded-row.module.css";

/** The height of a row, in px. */
export const FOLDED_PX = 52;

/** A message on a narrow screen: its two parties by name, all columns as dots, and its text below. */
export function FoldedRow({ exchange, columns, nameOf, isNow, onChoose }: ExchangeRowProps) {
  const { say } = useWords();
  const { from, to } = exchange;
  const [start, end] = [placeIn(columns, from), placeIn(columns, to)];
  const line = useExchangeLine(exchange);
  const partOf = (place: number) =>
    place === start || place === end
      ? "end"
      : place > Math.min(start, end) && place < Math.max(start, end)
        ? "way"
        : "off";
  return (
    <ExchangeButton className={styles["row"]} exchange={exchange} isNow={isNow} onChoose={onChoose}>
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
    </ExchangeButton>
  );
}
