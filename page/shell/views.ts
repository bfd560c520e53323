import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import { FloorView } from "../floor/floor-view.tsx";
import { SessionView } from "../session/session-view.tsx";
import type { WordKey } from "../words/en.ts";

export interface View {
  /** In the address, `#/name/…`. */
  name: string;
  title: WordKey;
  show: ComponentType | LazyExoticComponent<ComponentType>;
  /** Whether it shows the chosen floor only, and nothing if the server refuses the floor. */
  isOfFloor: boolean;
}

/** Views that are rarely opened first are separate chunks. */
const MachineView = lazy(async () => ({ default: (await import("../machine/machine-view.tsx")).MachineView }));
const TimelineView = lazy(async () => ({ default: (await import("../timeline/timeline-view.tsx")).TimelineView }));
const SequenceView = lazy(async () => ({ default: (await import("../sequence/sequence-view.tsx")).SequenceView }));
const NodeView = lazy(async () => ({ default: (await import("../node/node-view.tsx")).NodeView }));

/** The tabs in order; the first one is shown for an address without a view. */
export const VIEWS: readonly [View, ...View[]] = [
  { name: "floor", title: "floor.title", show: FloorView, isOfFloor: true },
  { name: "session", title: "session.title", show: SessionView, isOfFloor: true },
  { name: "machine", title: "machine.title", show: MachineView, isOfFloor: true },
  { name: "timeline", title: "timeline.title", show: TimelineView, isOfFloor: true },
  { name: "sequence", title: "sequence.title", show: SequenceView, isOfFloor: true },
  { name: "node", title: "node.title", show: NodeView, isOfFloor: false },
];
