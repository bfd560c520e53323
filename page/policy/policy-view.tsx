import { useState } from "react";
import type { MatrixAnswer } from "../../src/client/answers.ts";
import { ClientError } from "../../src/client/client-error.ts";
import { useClient } from "../../src/react/hooks.ts";
import { usePolled } from "../parts/use-polled.ts";
import { failureText } from "../words/failure-text.ts";
import { useWords } from "../words/words.tsx";
import { MatrixTable } from "./matrix-table.tsx";
import { OtherCatalogue } from "./other-catalogue.tsx";
import styles from "./policy.module.css";

/** How often it is looked whether another catalogue is in use, in ms, while this view is visible. */
const EVERY_MS = 2_000;

/**
 * Who does what to whom in the catalogue in use, what another one would change in it, and what would have happened on
 * the floor with it. Writes nothing.
 */
export function PolicyView() {
  const { say } = useWords();
  const { matrix, failure } = useMatrix();
  const isRefused = failure instanceof ClientError && (failure.status === 403 || failure.status === 401);
  return (
    <section className={styles["view"]} aria-labelledby="policy">
      <h1 id="policy">{say("policy.title")}</h1>
      <OtherCatalogue mayCompare={!isRefused} />
      <section className={styles["part"]} aria-labelledby="matrix">
        <h2 id="matrix">{say("matrix.title")}</h2>
        {isRefused && <p className={styles["quiet"]}>{say("policy.operators")}</p>}
        {failure && !isRefused && <p role="alert">{failureText(failure, say)}</p>}
        {matrix && <MatrixTable matrix={matrix} />}
      </section>
    </section>
  );
}

/** The matrix of the catalogue in use, read again for another catalogue. */
function useMatrix(): { matrix?: MatrixAnswer; failure?: Error } {
  const client = useClient();
  const [read, setRead] = useState<{ matrix?: MatrixAnswer; failure?: Error }>({});
  const look = async (signal: AbortSignal) => {
    try {
      const { catalog } = await client.getReadiness({ signal });
      if (catalog.hash === read.matrix?.hash) return;
      setRead({ matrix: await client.getMatrix({}, { signal }) });
    } catch (error) {
      if (!signal.aborted) setRead({ failure: error as Error });
    }
  };
  usePolled(look, EVERY_MS, client);
  return read;
}
