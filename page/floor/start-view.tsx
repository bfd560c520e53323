import { useHere } from "../moment/here.tsx";
import { LogFileButtons } from "../moment/log-file-buttons.tsx";
import { whenOf } from "../moment/time-text.ts";
import { CopyButton } from "../parts/commands/copy-button.tsx";
import { FloorForm } from "../parts/floor-form.tsx";
import { FloorLine } from "../parts/floor-line.tsx";
import { Rows } from "../parts/rows.tsx";
import { useAct } from "../parts/use-act.ts";
import { failureText } from "../words/failure-text.ts";
import { useWords } from "../words/words.tsx";
import { useRecentFloors } from "./recent-floors.ts";
import styles from "./start.module.css";

const ROW_PX = 44;
/** Rows that are visible without scrolling. */
const MAX_SEEN = 8;
/** The address that `interlock drive` uses by default. */
const LOCAL_NODE = "http://127.0.0.1:3000";
/** Preset in the field, so that one press opens a floor. */
const FIRST_USER = "driver";

/**
 * The start page: what Interlock is, the floors by their last activity, and how to start. Shown while no floor is
 * chosen.
 */
export function StartView() {
  const { say } = useWords();
  const { linkTo } = useHere();
  const { act, refusal } = useAct();
  const drive = location.origin === LOCAL_NODE ? "npx interlock drive" : `npx interlock drive ${location.origin}`;
  const open = (floorId: string) => {
    location.hash = linkTo("floor", { floorId, at: undefined });
  };
  return (
    <section className={styles["start"]} aria-labelledby="start">
      <h1 id="start">{say("start.title")}</h1>
      <p>{say("start.what")}</p>
      <Floors />
      <h2>{say("start.open")}</h2>
      <FloorForm firstUser={FIRST_USER} onOpen={open} />
      <p className={styles["quiet"]}>{say("start.openwhat")}</p>
      <h2>{say("start.watch")}</h2>
      <p>{say("floor.drive")}</p>
      <p className={styles["command"]}>
        <code>{drive}</code>
        <CopyButton text={drive} act={act} />
        {refusal && <span role="alert">{refusal.text}</span>}
      </p>
      <p>{say("log.what")}</p>
      <LogFileButtons />
    </section>
  );
}

/** The floors that the user may see, live. */
function Floors() {
  const { say, number, language } = useWords();
  const { linkTo } = useHere();
  const { floors, failure } = useRecentFloors();
  return (
    <>
      <h2>
        {say("start.floors")} {floors && floors.length > 0 && <small>{number.format(floors.length)}</small>}
      </h2>
      {failure && <p role="alert">{failureText(failure, say)}</p>}
      {!floors && !failure && <p className={styles["loading"]}>{say("start.loading")}</p>}
      {floors?.length === 0 && <p className={styles["quiet"]}>{say("start.none")}</p>}
      {floors && floors.length > 0 && (
        <div className={styles["floors"]} style={{ height: Math.min(floors.length, MAX_SEEN) * ROW_PX }}>
          <Rows
            items={floors}
            rowHeight={ROW_PX}
            label={say("start.floors")}
            keyOf={({ floorId }) => floorId}
            row={(floor) => (
              <a className={styles["floor"]} href={linkTo("floor", { floorId: floor.floorId, at: undefined })}>
                <FloorLine floor={floor} />
                {floor.activeAt !== undefined && (
                  <time dateTime={new Date(floor.activeAt).toISOString()}>{whenOf(floor.activeAt, language)}</time>
                )}
              </a>
            )}
          />
        </div>
      )}
    </>
  );
}
