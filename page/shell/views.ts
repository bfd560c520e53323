import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import { FloorScreen } from "../floor/floor-view.tsx";
import type { WordKey } from "../words/en.ts";

export interface View {
  /** In the address, `#/name/…`. */
  name: string;
  title: WordKey;
  show: ComponentType | LazyExoticComponent<ComponentType>;
  /** Whether it shows the chosen floor only, and nothing if the server refuses the floor. */
  isOfFloor: boolean;
}

const loadSessionView = () => import("../session/session-view.tsx");

/** Views that are rarely opened first are separate chunks. */
const SessionView = lazy(async () => ({ default: (await loadSessionView()).SessionView }));
const MachineView = lazy(async () => ({ default: (await import("../machine/machine-view.tsx")).MachineView }));
const TimelineView = lazy(async () => ({ default: (await import("../timeline/timeline-view.tsx")).TimelineView }));
const SequenceView = lazy(async () => ({ default: (await import("../sequence/sequence-view.tsx")).SequenceView }));
const PolicyView = lazy(async () => ({ default: (await import("../policy/policy-view.tsx")).PolicyView }));
const NodeView = lazy(async () => ({ default: (await import("../node/node-view.tsx")).NodeView }));

/** The tabs in order; the first one is shown for an address without a view. */
export const VIEWS: readonly [View, ...View[]] = [
  { name: "floor", title: "floor.title", show: FloorScreen, isOfFloor: true },
  { name: "session", title: "session.title", show: SessionView, isOfFloor: true },
  { name: "machine", title: "machine.title", show: MachineView, isOfFloor: true },
  { name: "timeline", title: "timeline.title", show: TimelineView, isOfFloor: true },
  { name: "sequence", title: "sequence.title", show: SequenceView, isOfFloor: true },
  { name: "policy", title: "policy.title", show: PolicyView, isOfFloor: false },
  { name: "node", title: "node.title", show: NodeView, isOfFloor: false },
];

/** The view of an address. */
export function viewOf(name: string): View {
  return VIEWS.find((each) => each.name === name) ?? VIEWS[0];
}

/** Load the view that most users open next, so that it is there when they do. A failure is told where it is opened. */
export function loadNextView(): void {
  loadSessionView().catch(() => undefined);
}
