import { useEffect, useEffectEvent, useRef } from "react";
import { placeOf } from "../log/log-event.ts";
import { type Here, useHere } from "../moment/here.tsx";
import { useWords } from "../words/words.tsx";
import styles from "./frame.module.css";
import { VIEWS } from "./views.ts";

/** By `event.code`: the place of a key, regardless of the layout. */
const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 };
/** With Shift. */
const STRIDE = 10;

/** Keys that work while no field has the focus. */
export function useKeys(): void {
  const here = useHere();
  const press = useEffectEvent((event: KeyboardEvent) => {
    const { target } = event;
    const isField = target instanceof HTMLElement && target.closest("input, textarea, select, dialog, [role=slider]");
    if (event.altKey || event.ctrlKey || event.metaKey || isField) return;
    if (takeKey(event, here)) event.preventDefault();
  });
  useEffect(() => {
    const listen = (event: KeyboardEvent) => press(event);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

function takeKey({ code, shiftKey, target }: KeyboardEvent, here: Here): boolean {
  const { log, count, at, lookAt, linkTo, sessionId } = here;
  const { events } = log;
  const digit = /^(?:Digit|Numpad)([1-9])$/.exec(code)?.[1];
  const view = digit === undefined ? undefined : VIEWS[Number(digit) - 1];
  if (view) {
    location.hash = linkTo(view.name, sessionId === undefined ? {} : { sessionId });
    return true;
  }
  const go = (to: number) => {
    const event = events[Math.max(1, Math.min(events.length, to)) - 1];
    if (event) lookAt(to > events.length ? undefined : placeOf(event));
    return event !== undefined;
  };
  const step = STEPS[code];
  if (step !== undefined) return go(count + step * (shiftKey ? STRIDE : 1));
  if (code === "Home") return go(1);
  if (code === "End") {
    lookAt(undefined);
    return true;
  }
  if (code === "BracketLeft" || code === "BracketRight") {
    const by = code === "BracketLeft" ? -1 : 1;
    for (let index = count - 1 + by; index >= 0 && index < events.length; index += by) {
      if (events[index]!.type === "arbitration") return go(index + 1);
    }
    return false;
  }
  if (code === "Space" && !(target instanceof HTMLElement && target.closest("button, a, summary, label"))) {
    const last = events.at(-1);
    lookAt(at === undefined && last ? placeOf(last) : undefined);
    return true;
  }
  if (code === "Slash" && !shiftKey) {
    const search = document.querySelector<HTMLElement>(`[data-key="/"]`);
    search?.focus();
    return search !== null;
  }
  const button = ({ Slash: "?", KeyF: "F", KeyT: "T", KeyL: "L", KeyC: "C" } as Record<string, string>)[code];
  if (button === undefined || (button === "?") !== shiftKey) return false;
  const element = document.querySelector<HTMLElement>(`[data-key="${button}"]`);
  if (element?.matches("input, textarea")) element.focus();
  else element?.click();
  return true;
}

const LIST = [
  ["1 … 6", "keys.views"],
  ["← →", "keys.events"],
  ["[ ]", "keys.decisions"],
  ["Home End", "keys.ends"],
  ["Space", "keys.hold"],
  ["W S", "keys.zoom"],
  ["A D", "keys.along"],
  ["F", "keys.floor"],
  ["/", "keys.search"],
  ["C", "keys.composer"],
  ["L", "keys.language"],
  ["T", "keys.theme"],
  ["?", "keys.list"],
] as const;

export function KeyList() {
  const { say } = useWords();
  const dialog = useRef<HTMLDialogElement>(null);
  return (
    <>
      <button type="button" data-key="?" aria-label={say("keys.title")} onClick={() => dialog.current?.showModal()}>
        ?
      </button>
      <dialog ref={dialog} className={`${styles["dialog"]} ${styles["keys"]}`} aria-label={say("keys.title")}>
        <h2>{say("keys.title")}</h2>
        <dl>
          {LIST.map(([keys, what]) => (
            <div key={what} style={{ display: "contents" }}>
              <dt>
                <kbd>{keys}</kbd>
              </dt>
              <dd>{say(what)}</dd>
            </div>
          ))}
        </dl>
        <button type="button" onClick={() => dialog.current?.close()}>
          {say("close")}
        </button>
      </dialog>
    </>
  );
}
