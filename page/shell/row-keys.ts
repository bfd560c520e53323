/**
 * The rows that the row keys move between: those of long lists (`parts/rows.tsx`), and every element marked as one. A
 * row is a link, a button or a summary, which Enter opens natively, or a section.
 */
const ROWS = "main [data-row], main li[aria-posinset] > :is(a, button)";

const rowsNow = () => [...document.querySelectorAll<HTMLElement>(ROWS)].filter((row) => row.checkVisibility());

/** Focuses the next or the previous row; at first the current one, or one at an end. */
export function goToRow(by: 1 | -1): boolean {
  const rows = rowsNow();
  const index = rows.findIndex((row) => row.contains(document.activeElement));
  const current = rows.findIndex((row) => row.getAttribute("aria-current") === "true");
  const first = current >= 0 ? current : by > 0 ? 0 : rows.length - 1;
  const next = rows[index < 0 ? first : index + by];
  next?.focus();
  return next !== undefined;
}

/** The row after the current one of a long list, or before it at the end; undefined without a current one. */
export function rowBesideCurrent(): HTMLElement | undefined {
  const current = document.querySelector('main li[aria-posinset] > [aria-current="true"]')?.parentElement;
  const beside = current?.nextElementSibling ?? current?.previousElementSibling;
  return beside?.querySelector<HTMLElement>("a, button") ?? undefined;
}

/** The arrow keys belong to the rows unless a scrolling element has the focus. */
export function ownsArrows(target: EventTarget | null): boolean {
  return (
    !(target instanceof Element) || target.closest(ROWS) !== null || target.closest("[tabindex]:not(main)") === null
  );
}

/** Closes the open element around the focus. */
export function closeAround(): boolean {
  const details = document.activeElement?.closest<HTMLDetailsElement>("main details[open]");
  if (!details) return false;
  details.open = false;
  details.querySelector("summary")?.focus();
  return true;
}

/** Presses the button of a key: in the focused card, otherwise the view's first. */
export function pressKey(key: string): boolean {
  const card = document.activeElement?.closest("[data-card]");
  const button = (card ?? document.querySelector("main"))?.querySelector<HTMLElement>(`[data-key="${key}"]:enabled`);
  button?.click();
  return button !== null && button !== undefined;
}

/** Chooses a numbered answer of the focused confirmation. */
export function chooseOption(number: number): boolean {
  const confirmation = document.activeElement?.closest("[data-options]");
  const option = confirmation?.querySelectorAll<HTMLElement>("[data-option]")[number - 1];
  if (option?.matches("input")) option.focus();
  else option?.click();
  return confirmation !== null && confirmation !== undefined;
}
