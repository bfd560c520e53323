/** Where a removed element was, by the names of where one is. */
export interface Removal {
  removed: Node;
  parentNode: Node | null;
  previousSibling: Node | null;
  nextSibling: Node | null;
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
  return sameOfCard(control) ?? nearest(removal ?? control, isRow);
}

/** The control after a row or before another element, else the one on its other side, else one farther out. */
function nearest(place: Omit<Removal, "removed">, isRow = false): HTMLElement | undefined {
  const { parentNode, previousSibling, nextSibling } = place;
  const above = along(previousSibling, "previousSibling");
  const below = along(nextSibling, "nextSibling");
  const beside = isRow ? (below ?? above) : (above ?? below);
  if (beside) return beside;
  if (!(parentNode instanceof HTMLElement) || parentNode.localName === "main") {
    return document.querySelector("main") ?? undefined;
  }
  return isControl(parentNode) ? parentNode : nearest(parentNode);
}

/** A session's card is made anew in another place when its state changes. */
function sameOfCard(control: HTMLElement): HTMLElement | undefined {
  const id = control.closest<HTMLElement>("[data-card]")?.dataset["card"];
  const card = id === undefined ? null : document.querySelector<HTMLElement>(`[data-card="${CSS.escape(id)}"]`);
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

/** The first control from a node on, among its siblings in one direction. */
function along(start: Node | null, direction: "nextSibling" | "previousSibling"): HTMLElement | undefined {
  for (let node = start; node; node = node[direction]) {
    const found = node instanceof HTMLElement && controlsIn(node).find((each) => !each.matches(RISKY));
    if (found) return found;
  }
  return undefined;
}

/** The element itself is one of them if it takes the focus. */
const controlsIn = (element: HTMLElement): HTMLElement[] =>
  [element, ...element.querySelectorAll<HTMLElement>(CONTROLS)].filter(isControl);

const isControl = (element: HTMLElement): boolean =>
  element.isConnected && element.matches(CONTROLS) && !element.matches(":disabled") && element.checkVisibility();
