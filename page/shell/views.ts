import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import { FloorView } from "../floor/floor-view.tsx";
import { SessionView } from "../session/session-view.tsx";
import type { WordKey } from "../words/en.ts";

export interface View {
  /** In the address, `#/name/…`. */
  name: string;
  title: WordKey;
  show: ComponentType | LazyExoticComponent<ComponentType>;
  /** It shows the chosen floor, and nothing else where the server refuses that. */
  isOfFloor: boolean;
}

/** Views that few open first are scripts of their own. */
const MachineView = lazy(async () => ({ default: (await import("../machine/machine-view.tsx")).MachineView }));
const TimelineView = lazy(async () => ({ default: (await import("../timeline/timeline-view.tsx")).TimelineView }));
const SequenceView = lazy(async () => ({ default: (await import("../sequence/sequence-view.tsx")).SequenceView }));
const NodeView = lazy(async () => ({ default: (await import("../node/node-view.tsx")).NodeView }));

/** The tabs, in their order; the first one is shown where the address names none. */
export const VIEWS: readonly [View, ...View[]] = [
  { name: "floor", title: "floor.title", show: FloorView, isOfFloor: true },
  { name: "session", title: "session.title", show: SessionView, isOfFloor: true },
  { name: "machine", title: "machine.title", show: MachineView, isOfFloor: true },
  { name: "timeline", title: "timeline.title", show: TimelineView, isOfFloor: true },
  { name: "sequence", title: "sequence.title", show: SequenceView, isOfFloor: true },
  { name: "node", title: "node.title", show: NodeView, isOfFloor: false },
];
