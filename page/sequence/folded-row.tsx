import { LineText } from "../parts/event-text.tsx";
import { useWords } from "../words/words.tsx";
import { ExchangeButton, type ExchangeRowProps } from "./exchange-button.tsx";
import { useExchangeLine } from "./exchange-line.ts";
import { columnOf } from "./exchanges.ts";
import styles from "./folded-row.module.css";

/** The height of a row, in px. */
export const FOLDED_PX = 52;

/** A message on a narrow screen: its two parties by name, all columns as dots, and its text below. */
export function FoldedRow({ exchange, columns, nameOf, isNow, onChoose }: ExchangeRowProps) {
  const { say } = useWords();
  const { from, to } = exchange;
  const [start, end] = [columnOf(columns, from), columnOf(columns, to)];
  const line = useExchangeLine(exchange);
  const partOf = (index: number) =>
    index === start || index === end
      ? "end"
      : index > Math.min(start, end) && index < Math.max(start, end)
        ? "way"
        : "off";
  return (
    <ExchangeButton className={styles["row"]} exchange={exchange} isNow={isNow} onChoose={onChoose}>
      <span
        className={styles["dots"]}
        role="img"
        aria-label={say("sequence.fromto", { from: nameOf(from), to: nameOf(to) })}
      >
        {columns.map((_, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a dot is its index.
          <i key={index} data-part={partOf(index)} />
        ))}
      </span>
      <b aria-hidden="true">{`${nameOf(from)} → ${nameOf(to)}`}</b>
      <span className={styles["text"]}>
        <LineText line={line} />
      </span>
    </ExchangeButton>
  );
}
