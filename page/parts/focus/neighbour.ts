/** Where a removed element was. */
export interface Removal {
  parent: Node;
  previous: Node | null;
  next: Node | null;
  removed: Node;
}

/** No fields: what is typed next would be meant for the field that is gone. */
const CONTROLS = "a[href], button, summary, [tabindex='0'], input[type=checkbox]";
/** Commands that another press of Enter must not give by mistake. */
const RISKY = "[data-risky]";
const ROWS = "li, article, [data-row]";

/**
 * The control that is the best place for the focus of one that was removed or disabled: the same control of the same
 * session, else the next row or the control before it, else one farther out.
 * @param removal where it was, if it was removed
 */
export function neighbourOf(control: HTMLElement, removal: Removal | undefined): HTMLElement | undefined {
  const isRow = removal?.removed instanceof Element && removal.removed.matches(ROWS);
  const [previous, next] = removal ? [removal.previous, removal.next] : siblingsOf(control);
  const [above, below] = [along(previous, "previousSibling"), along(next, "nextSibling")];
  const beside = isRow ? (below ?? above) : (above ?? below);
  return sameOfCard(control) ?? beside ?? fartherOut(removal ? removal.parent : control.parentElement);
}

const siblingsOf = (element: Element): [Element | null, Element | null] => [
  element.previousElementSibling,
  element.nextElementSibling,
];

/** The element itself if it takes the focus, else the nearest control beside it or one of those around it. */
function fartherOut(from: Node | null): HTMLElement | undefined {
  for (let outer = from && elementOf(from); outer; outer = outer.parentElement) {
    if (isControl(outer) || outer.localName === "main") return outer;
    const [previous, next] = siblingsOf(outer);
    const found = along(previous, "previousSibling") ?? along(next, "nextSibling");
    if (found) return found;
  }
  return document.querySelector<HTMLElement>("main") ?? undefined;
}

/** A session's card is made anew in another place when its state changes. */
function sameOfCard(control: HTMLElement): HTMLElement | undefined {
  const id = control.closest<HTMLElement>("[data-card]")?.dataset["card"];
  const card = id === undefined ? null : document.querySelector(`[data-card="${CSS.escape(id)}"]`);
  if (!card) return undefined;
  const key = control.dataset["key"];
  const keys = key === "P" || key === "R" ? ["P", "R"] : [key];
  const controls = controlsIn(card);
  return (
    controls.find((each) => key !== undefined && keys.includes(each.dataset["key"])) ??
    controls.find((each) => each.localName === control.localName && each.textContent === control.textContent) ??
    controls[0]
  );
}

const elementOf = (node: Node): HTMLElement | null => (node instanceof HTMLElement ? node : null);

/** The first control from a node on, among its siblings in one direction. */
function along(start: Node | null, direction: "nextSibling" | "previousSibling"): HTMLElement | undefined {
  for (let node = start; node; node = node[direction]) {
    const found = node instanceof HTMLElement ? firstIn(node) : undefined;
    if (found) return found;
  }
  return undefined;
}

const firstIn = (element: HTMLElement): HTMLElement | undefined =>
  [element, ...controlsIn(element)].find((each) => isControl(each) && !each.matches(RISKY));

const controlsIn = (element: Element): HTMLElement[] =>
  [...element.querySelectorAll<HTMLElement>(CONTROLS)].filter(isControl);

const isControl = (element: HTMLElement): boolean =>
  element.isConnected && element.matches(CONTROLS) && !element.matches(":disabled") && element.checkVisibility();
