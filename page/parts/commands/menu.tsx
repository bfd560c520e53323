import { useId, useRef } from "react";
import styles from "./menu.module.css";

/** In px. */
const WIDTH = 260;
const GAP = 4;

interface MenuItem {
  text: string;
  choose: () => void;
}

interface Props {
  label: string;
  items: readonly MenuItem[];
  disabled: boolean;
}

/** A button that opens a menu above everything else. Escape and a press outside close it. */
export function Menu({ label, items, disabled }: Props) {
  const id = useId();
  const opener = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLUListElement>(null);
  /** Below the button, or above it if there is more room. The browser may open a list that is being removed. */
  const moveList = () => {
    if (!opener.current || !list.current) return;
    const { left, top, bottom } = opener.current.getBoundingClientRect();
    const { style } = list.current;
    const isBelow = bottom < innerHeight / 2;
    style.left = `${Math.max(GAP, Math.min(left, document.documentElement.clientWidth - WIDTH - GAP))}px`;
    style.top = isBelow ? `${bottom + GAP}px` : "auto";
    style.bottom = isBelow ? "auto" : `${innerHeight - top + GAP}px`;
  };
  const choose = (item: MenuItem) => {
    // The focus returns to the button, unless the choice takes it.
    list.current?.hidePopover();
    item.choose();
  };
  return (
    <>
      <button
        ref={opener}
        type="button"
        className={styles["opener"]}
        popoverTarget={id}
        aria-label={label}
        title={label}
      >
        ⋯
      </button>
      <ul
        ref={list}
        id={id}
        popover="auto"
        className={styles["list"]}
        style={{ width: WIDTH }}
        aria-label={label}
        onBeforeToggle={({ newState }) => newState === "open" && moveList()}
      >
        {items.map((item) => (
          <li key={item.text}>
            <button type="button" disabled={disabled} onClick={() => choose(item)}>
              {item.text}
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
