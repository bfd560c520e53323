import { useEffect, useState } from "react";
import type { ClientError } from "../../src/client/client-error.ts";
import type { LiveState } from "../../src/client/live/live.ts";
import { useHere } from "../moment/here.tsx";
import { clockOf } from "../moment/time-text.ts";
import { floorIdOf, floorName } from "../parts/floor-name.ts";
import { failureText } from "../words/failure-text.ts";
import type { Say } from "../words/sentence.ts";
import { useWords } from "../words/words.tsx";
import { addressOf } from "./address.ts";
import styles from "./frame.module.css";

/** A lamp and a word, because colour alone is not enough. */
export function ConnectionLamp({ state: { status }, isSignedOut }: { state: LiveState; isSignedOut: boolean }) {
  const { say } = useWords();
  return (
    <span className={styles["lamp"]} data-status={isSignedOut ? "refused" : status} role="status">
      <span aria-hidden="true">{status === "open" && !isSignedOut ? "●" : "○"}</span>{" "}
      <b>{say(isSignedOut ? "connection.signedout" : `connection.${status}`)}</b>
    </span>
  );
}

/** Says why the page cannot reach the server. The content stays as it was. */
export function ConnectionLine({ state: { status, failure, retryAt, bye } }: { state: LiveState }) {
  const { say } = useWords();
  const [lostAt, setLostAt] = useState<number>();
  if (status === "open" && lostAt !== undefined) setLostAt(undefined);
  if (status === "waiting" && lostAt === undefined) setLostAt(Date.now());
  if (status === "refused" && failure && failure.status !== 404) {
    return <p className={styles["line"]}>{say("connection.failed", { reason: failureText(failure, say) })}</p>;
  }
  if (status !== "waiting" || retryAt === undefined) return undefined;
  return (
    <p className={styles["lost"]}>
      <Countdown until={retryAt} since={lostAt} isRestart={bye === "draining"} />
    </p>
  );
}

/** Shown in place of a view whose floor the server refuses. */
export function FloorRefused({ state: { failure } }: { state: LiveState }) {
  const { say } = useWords();
  const { floorId = "", linkTo } = useHere();
  const isMalformed = failure?.code === "bad_request";
  return (
    <section className={styles["failure"]} aria-labelledby="refused">
      <h1 id="refused">{floorName(floorId)}</h1>
      <p role="alert">{refusalText(failure, floorId, say)}</p>
      {isMalformed && (
        <p>
          <a href={linkTo("floor", { floorId: floorIdOf(floorId, "") })}>{say("floor.openuser", { name: floorId })}</a>
        </p>
      )}
      <a href={addressOf("floor")}>{say("floor.another")}</a>
    </section>
  );
}

function refusalText(failure: ClientError | undefined, id: string, say: Say): string {
  if (failure?.status === 404) return say("floor.foreign");
  if (failure?.code === "bad_request") return say("floor.malformed", { id });
  return failure ? failureText(failure, say) : say("failure.title");
}

interface CountdownProps {
  until: number;
  since: number | undefined;
  isRestart: boolean;
}

function Countdown({ until, since, isRestart }: CountdownProps) {
  const { say, language } = useWords();
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return say(isRestart ? "connection.restart" : "connection.lost", {
    time: clockOf(since ?? now, language),
    seconds: Math.max(0, Math.ceil((until - now) / 1_000)),
  });
}
