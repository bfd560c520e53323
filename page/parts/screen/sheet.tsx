import { type ReactNode, useLayoutEffect, useRef } from "react";
import { useWords } from "../../words/words.tsx";
import styles from "./sheet.module.css";

interface Props {
  /** The name for screen readers. */
  label: string;
  onClose: () => void;
  children: ReactNode;
}

/**
 * A part of a view that a narrow screen has no room for. It slides in from below, over the view. Escape, its button and
 * a press outside close it, and the focus returns to the element that opened it.
 */
export function Sheet({ label, onClose, children }: Props) {
  const { say } = useWords();
  const dialog = useRef<HTMLDialogElement>(null);
  // A layout effect, because only a dialog that is closed before its removal returns the focus.
  useLayoutEffect(() => {
    const element = dialog.current!;
    element.showModal();
    return () => element.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog by itself.
    <dialog
      ref={dialog}
      className={styles["sheet"]}
      aria-label={label}
      onClose={onClose}
      onClick={({ target }) => target === dialog.current && onClose()}
    >
      <div className={styles["all"]}>
        <header className={styles["head"]}>
          <span className={styles["grip"]} aria-hidden="true" />
          <button type="button" onClick={onClose}>
            {say("close")}
          </button>
        </header>
        <div className={styles["body"]}>{children}</div>
      </div>
    </dialog>
  );
}
