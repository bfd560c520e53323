import { useEffect, useEffectEvent, useRef, useState } from "react";
import { countUpTo, floorSeqOf } from "../log/log-event.ts";
import { type Here, useHere } from "../moment/here.tsx";
import { useWords } from "../words/words.tsx";
import { useAddress } from "./address.ts";
import { readChoice, writeChoice } from "./choices.ts";
import styles from "./frame.module.css";
import { chooseOption, closeAround, goToRow, ownsArrows, pressKey } from "./row-keys.ts";
import { VIEWS } from "./views.ts";

/** By `event.code`: the position of a key, regardless of the layout. */
const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 };
/** With Shift. */
const STRIDE = 10;
/** The directions to the nearest decision. */
const DECISIONS: Readonly<Record<string, -1 | 1>> = { BracketLeft: -1, BracketRight: 1 };

/** Whether the keys are on (WCAG 2.1.4); the browser remembers it. */
export function useKeySwitch(): KeyListProps {
  const [areOn, setOn] = useState(() => readChoice("keys") !== "off");
  const onSwitch = (next: boolean) => {
    writeChoice("keys", next ? "on" : "off");
    setOn(next);
  };
  return { areOn, onSwitch };
}

/** Keyboard shortcuts, active while no field has the focus, unless they are switched off. */
export function useKeys(areOn: boolean): void {
  const here = useHere();
  const view = useAddress().view;
  const press = useEffectEvent((event: KeyboardEvent) => {
    const { target } = event;
    if (!areOn) return;
    const isField = target instanceof HTMLElement && target.closest("input, textarea, select, dialog, [role=slider]");
    if (event.altKey || event.ctrlKey || event.metaKey || isField) return;
    // Escape belongs to an open menu, which closes itself.
    if (event.code === "Escape" && document.querySelector(":popover-open")) return;
    if (handleRowKey(event) || handleKey(event, here, view)) event.preventDefault();
  });
  useEffect(() => {
    const listen = (event: KeyboardEvent) => press(event);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

/** Keys for controls in the view. */
function handleRowKey({ code, shiftKey, target }: KeyboardEvent): boolean {
  if (shiftKey) return false;
  const option = /^(?:Digit|Numpad)([1-4])$/.exec(code)?.[1];
  if (option !== undefined) return chooseOption(Number(option));
  switch (code) {
    case "KeyJ":
      return goToRow(1);
    case "KeyK":
      return goToRow(-1);
    case "ArrowDown":
      return ownsArrows(target) && goToRow(1);
    case "ArrowUp":
      return ownsArrows(target) && goToRow(-1);
    case "KeyP":
    case "KeyR":
    case "KeyX":
      return pressKey(code.at(-1)!);
    case "Escape":
      return closeAround();
    default:
      return false;
  }
}

/** Keys for the view, the moment and the controls of the page. */
function handleKey(event: KeyboardEvent, here: Here, shown: string): boolean {
  return handleViewKey(event, here, shown) || handleMomentKey(event, here) || handleControlKey(event);
}

/** Keys that choose what the page shows. */
function handleViewKey({ code }: KeyboardEvent, { linkTo, follow, sessionId }: Here, shown: string): boolean {
  const digit = /^(?:Digit|Numpad)([1-9])$/.exec(code)?.[1];
  const view = digit === undefined ? undefined : VIEWS[Number(digit) - 1];
  if (view) {
    follow(linkTo(view.name, sessionId === undefined ? {} : { sessionId }));
    return true;
  }
  if (code === "Escape" && shown === "session" && sessionId !== undefined) {
    // The session is closed; the focus is on its row.
    document.querySelector<HTMLElement>('main a[aria-current="true"]')?.focus();
    follow(linkTo("session"));
    return true;
  }
  return false;
}

/** Keys that choose the moment at which the floor is shown. */
function handleMomentKey({ code, shiftKey, target }: KeyboardEvent, { log, lookAt, ...here }: Here): boolean {
  const { events } = log;
  // Keys that follow in close succession each begin where the former one ended.
  const { at } = here.awaited.moment ?? here;
  const count = at === undefined ? events.length : countUpTo(events, at);
  const go = (to: number) => {
    const event = events[Math.max(1, Math.min(events.length, to)) - 1];
    if (event) lookAt(to > events.length ? undefined : floorSeqOf(event));
    return event !== undefined;
  };
  const step = STEPS[code];
  if (step !== undefined) return go(count + step * (shiftKey ? STRIDE : 1));
  if (code === "Home") return go(1);
  if (code === "End") {
    lookAt(undefined);
    return true;
  }
  const decisions = DECISIONS[code];
  if (decisions !== undefined) {
    const index = nearestDecision(events, count - 1, decisions);
    return index !== undefined && go(index + 1);
  }
  if (code === "Space" && !isPressable(target)) {
    const last = events.at(-1);
    lookAt(at === undefined && last ? floorSeqOf(last) : undefined);
    return true;
  }
  return false;
}

/** Whether the space bar presses the element itself. */
const isPressable = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest("button, a, summary, label") !== null;

/** The index of the decision before an index (`by` is -1) or after it (1); undefined if there is none. */
function nearestDecision(events: Here["log"]["events"], from: number, by: 1 | -1): number | undefined {
  for (let index = from + by; index >= 0 && index < events.length; index += by) {
    if (events[index]!.type === "arbitration") return index;
  }
  return undefined;
}

/** Keys that press a control or focus a field. */
function handleControlKey({ code, shiftKey }: KeyboardEvent): boolean {
  if (code === "Slash" && !shiftKey) {
    const search = () => document.querySelector<HTMLElement>(`input[data-key="/"]`);
    // The list may be hidden: then the element with this key shows it.
    if (!search()) document.querySelector<HTMLElement>(`[data-key="/"]`)?.click();
    setTimeout(() => search()?.focus());
    return document.querySelector(`[data-key="/"]`) !== null;
  }
  const button = ({ Slash: "?", KeyF: "F", KeyT: "T", KeyL: "L", KeyC: "C" } as Record<string, string>)[code];
  if (button === undefined || (button === "?") !== shiftKey) return false;
  const element = document.querySelector<HTMLElement>(`[data-key="${button}"]`);
  if (element?.matches("input, textarea")) element.focus();
  else element?.click();
  return true;
}

const LIST = [
  ["1 … 7", "keys.views"],
  ["← →", "keys.events"],
  ["[ ]", "keys.decisions"],
  ["Home End", "keys.ends"],
  ["Space", "keys.hold"],
  ["W S", "keys.zoom"],
  ["A D", "keys.along"],
  ["J K, ↓ ↑", "keys.rows"],
  ["Enter Esc", "keys.open"],
  ["P R", "keys.pause"],
  ["X", "keys.abort"],
  ["1 … 4", "keys.options"],
  ["F", "keys.floor"],
  ["/", "keys.search"],
  ["C", "keys.composer"],
  ["L", "keys.language"],
  ["T", "keys.theme"],
  ["?", "keys.list"],
] as const;

interface KeyListProps {
  areOn: boolean;
  onSwitch: (areOn: boolean) => void;
}

export function KeyList({ areOn, onSwitch }: KeyListProps) {
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
        <p>
          <label>
            <input type="checkbox" checked={areOn} onChange={({ target }) => onSwitch(target.checked)} />{" "}
            {say("keys.areon")}
          </label>
        </p>
        <button type="button" onClick={() => dialog.current?.close()}>
          {say("close")}
        </button>
      </dialog>
    </>
  );
}
