import { neighbourOf, type Removal } from "./neighbour.ts";

/** For this many ms after a control disappears, the page may move the focus. */
const GRACE_MS = 50;

/** Controls whose command is under way. They are disabled meanwhile, and get the focus back. */
const underWay = new Set<Element>();

/** Keeps the focus for the control that has it while its command runs; call the returned function when it has ended. */
export function guardFocus(): () => void {
  const control = document.activeElement;
  if (!(control instanceof HTMLElement) || control === document.body) return () => undefined;
  underWay.add(control);
  return () => {
    underWay.delete(control);
    if (hasLostFocus()) control.focus({ preventScroll: true });
    watching?.check();
  };
}

const hasLostFocus = (): boolean => document.activeElement === document.body;

let watching: FocusKeeper | undefined;

/**
 * Moves the focus to a neighbour when the control that had it is removed or disabled, as happens when a command has
 * made it useless. Otherwise the focus is on the document, and screen readers and keys begin again at the top.
 * @returns a function that ends this
 */
export function keepFocus(): () => void {
  const keeper = new FocusKeeper();
  watching = keeper;
  return () => {
    keeper.end();
    watching = undefined;
  };
}

class FocusKeeper {
  /** The element that got the focus last; undefined after a press beside all controls. */
  #control: HTMLElement | undefined;
  /** Where the control was before it was removed. */
  #removal: Removal | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #observer = new MutationObserver((records) => this.#changed(records));

  constructor() {
    addEventListener("focusin", this.#focused);
    addEventListener("pointerdown", this.#pressed);
    this.#observer.observe(document.body, {
      subtree: true,
      childList: true,
      attributes: true,
      attributeFilter: ["disabled"],
    });
  }

  end(): void {
    removeEventListener("focusin", this.#focused);
    removeEventListener("pointerdown", this.#pressed);
    this.#observer.disconnect();
    clearTimeout(this.#timer);
  }

  check(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#restoreFocus();
    }, GRACE_MS);
  }

  readonly #focused = ({ target }: FocusEvent) => {
    this.#control = target instanceof HTMLElement ? target : undefined;
    this.#removal = undefined;
  };

  /** A press beside all controls takes the focus away on purpose. */
  readonly #pressed = ({ target }: PointerEvent) => {
    const isControl = target instanceof Element && target.closest("a, button, input, select, textarea, summary, label");
    if (!isControl) this.#control = undefined;
  };

  #changed(records: readonly MutationRecord[]): void {
    const control = this.#control;
    if (!control || !isGone(control)) return;
    if (!control.isConnected && !this.#removal) {
      for (const { target, removedNodes, previousSibling, nextSibling } of records) {
        const removed = [...removedNodes].find((node) => node.contains(control));
        if (removed) this.#removal = { parentNode: target, previousSibling, nextSibling, removed };
      }
    }
    this.check();
  }

  #restoreFocus(): void {
    const control = this.#control;
    // The other controls are disabled too while a command is under way.
    if (!control || !isGone(control) || underWay.size > 0) return;
    if (hasLostFocus() || document.activeElement === control) {
      neighbourOf(control, this.#removal)?.focus({ preventScroll: true });
    }
  }
}

const isGone = (control: Element): boolean => !control.isConnected || control.matches(":disabled");
