import { useEffect, useState } from "react";
import type { LiveState } from "../../src/client/live/live.ts";
import { useWords } from "../words/words.tsx";
import styles from "./frame.module.css";

/** A lamp and a word: never colour alone. */
export function ConnectionLamp({ state: { status } }: { state: LiveState }) {
  const { say } = useWords();
  return (
    <span className={styles["lamp"]} data-status={status} role="status">
      <span aria-hidden="true">{status === "open" ? "●" : "○"}</span> <b>{say(`connection.${status}`)}</b>
    </span>
  );
}

/** Says what keeps the page from the server. What is shown meanwhile stays as it was. */
export function ConnectionLine({ state: { status, failure, retryAt } }: { state: LiveState }) {
  const { say } = useWords();
  if (status === "refused" && failure && failure.code !== "unauthorized") {
    return <p className={styles["line"]}>{say("connection.failed", { reason: failure.message })}</p>;
  }
  if (status !== "waiting" || retryAt === undefined) return undefined;
  return (
    <p className={styles["line"]}>
      <Countdown until={retryAt} />
    </p>
  );
}

function Countdown({ until }: { until: number }) {
  const { say } = useWords();
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return say("connection.lost", { seconds: Math.max(0, Math.ceil((until - now) / 1_000)) });
}
