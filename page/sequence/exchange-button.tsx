import type { ReactNode } from "react";
import { clockOf } from "../moment/time-text.ts";
import { useWords } from "../words/words.tsx";
import { type NameOf, toneOf } from "./exchange-line.ts";
import type { Column, Exchange } from "./exchanges.ts";
import styles from "./tone.module.css";

export interface ExchangeRowProps {
  columns: readonly Column[];
  nameOf: NameOf;
  exchange: Exchange;
  isNow: boolean;
  onChoose: () => void;
}

interface Props extends Pick<ExchangeRowProps, "exchange" | "isNow" | "onChoose"> {
  className: string | undefined;
  children: ReactNode;
}

/** The button of a message, with its time and its colour. A press chooses its moment. */
export function ExchangeButton({ exchange, isNow, onChoose, className, children }: Props) {
  const { language } = useWords();
  return (
    <button
      type="button"
      className={`${styles["row"]} ${className}`}
      data-tone={toneOf(exchange)}
      aria-current={isNow ? "true" : undefined}
      onClick={onChoose}
    >
      <time>{clockOf(exchange.at, language, true)}</time>
      {children}
    </button>
  );
}
