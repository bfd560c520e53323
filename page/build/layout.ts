import elkjs, { type ElkExtendedEdge, type ElkNode } from "elkjs/lib/elk.bundled.js";
import type {
  ChartArrow as MachineArrow,
  ChartRegion as MachineRegion,
} from "../../src/actors/machine/machine-chart.ts";
import { type ArrowLayout, arrowLabelOf, type Box, type Layout, type RegionLayout } from "../machine/chart.ts";

/** The widest of the common monospace fonts, in em per character: labels in any other font fit as well. */
const EM = 0.602;
const STATE = { font: 13, padding: 14, height: 38 };
const LABEL = { font: 11, line: 14, padding: 4 };
const START = "start";
const FRAME = "frame";
const START_PX = 12;

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.edgeLabels.inline": "true",
  "elk.spacing.edgeLabel": "2",
  "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
  "elk.json.shapeCoords": "ROOT",
  "elk.json.edgeCoords": "ROOT",
  "elk.padding": "[top=4,left=4,bottom=4,right=4]",
};
const DIRECTIONS = {
  wide: {
    "elk.direction": "RIGHT",
    "elk.spacing.nodeNode": "28",
    "elk.spacing.edgeNode": "16",
    "elk.spacing.edgeEdge": "12",
    "elk.layered.spacing.nodeNodeBetweenLayers": "28",
    "elk.layered.spacing.edgeNodeBetweenLayers": "14",
    "elk.layered.spacing.edgeEdgeBetweenLayers": "12",
  },
  // Close together: the two of a session fit above each other beside its conversation.
  tall: {
    "elk.direction": "DOWN",
    "elk.spacing.nodeNode": "20",
    "elk.spacing.edgeNode": "12",
    "elk.spacing.edgeEdge": "10",
    "elk.layered.spacing.nodeNodeBetweenLayers": "10",
    "elk.layered.spacing.edgeNodeBetweenLayers": "6",
    "elk.layered.spacing.edgeEdgeBetweenLayers": "8",
  },
};

/** A region of a machine with the places of its states and arrows, in two directions. */
export async function drawRegion(region: MachineRegion): Promise<RegionLayout> {
  const { name, states, initial } = region;
  const framed = frameOf(region);
  const isStart = states.find((state) => state.name === initial)?.stays.length === 0 && hasOnlyWaysOut(region, initial);
  const drawn = isStart ? states.filter((state) => state.name !== initial) : states;
  const arrows = [startOf(region, isStart), ...arrowsOf(region, framed, isStart ? initial : undefined)];
  const sketch = { states: drawn.map((state) => state.name), arrows, framed };
  const [wide, tall] = await Promise.all([layOut(sketch, "wide"), layOut(sketch, "tall")]);
  return { name, states: drawn, arrows, framed, wide, tall };
}

/** A state with eventless transitions only is not drawn: it is the start of the machine. */
const hasOnlyWaysOut = ({ arrows }: MachineRegion, name: string): boolean =>
  arrows.every(({ from, to, event }) => to !== name && (from !== name || event === undefined)) &&
  arrows.some(({ from, guard }) => from === name && guard === undefined);

function startOf({ arrows, initial }: MachineRegion, isStart: boolean): ArrowLayout {
  const first = arrows.find(({ from, guard }) => from === initial && guard === undefined);
  return { from: [], to: isStart && first ? first.to : initial, words: [] };
}

/** The states with the most common ways out: each common way is drawn once, from a frame around them. */
function frameOf({ arrows }: MachineRegion): string[] {
  const together = Map.groupBy(arrows, ({ event, to }) => `${event} ${to}`);
  const sets = [...together.values()]
    .map((same) => new Set(same.map(({ from }) => from)))
    .filter(({ size }) => size > 1);
  const pairs = new Set(arrows.map(({ from, to }) => `${from} ${to}`));
  const saved = (set: ReadonlySet<string>) => {
    const targets = new Set(arrows.map(({ to }) => to));
    const shared = [...targets].filter((to) => !set.has(to) && [...set].every((from) => pairs.has(`${from} ${to}`)));
    return shared.length * (set.size - 1);
  };
  const [best] = sets.toSorted((one, other) => saved(other) - saved(one));
  return best && saved(best) > 1 ? [...best] : [];
}

/** One arrow for all transitions between two states; transitions that all framed states share start at their frame. */
function arrowsOf({ arrows }: MachineRegion, framed: readonly string[], without: string | undefined): ArrowLayout[] {
  const shown = arrows.filter(({ from }) => from !== without);
  const isShared = ({ from, event, to }: MachineArrow) =>
    framed.includes(from) &&
    !framed.includes(to) &&
    framed.every((state) => shown.some((each) => each.from === state && each.event === event && each.to === to));
  const sourcesOf = (arrow: MachineArrow) => (isShared(arrow) ? framed : [arrow.from]);
  const ways = Map.groupBy(shown, (arrow) => `${sourcesOf(arrow).join("+")} ${arrow.to}`);
  return [...ways.values()].map((same) => ({ from: sourcesOf(same[0]!), to: same[0]!.to, words: wordsOf(same) }));
}

/** An event that also occurs without a guard is shown without one. */
function wordsOf(arrows: readonly MachineArrow[]): ArrowLayout["words"] {
  const always = new Set(arrows.filter(({ guard }) => guard === undefined).map(({ event }) => event));
  const words = arrows
    .filter(({ event, guard }) => guard === undefined || !always.has(event))
    .map(({ event, guard }) => ({ ...(event !== undefined && { event }), ...(guard !== undefined && { guard }) }));
  return [...new Map(words.map((word) => [JSON.stringify(word), word])).values()].filter(
    ({ event, guard }) => event !== undefined || guard !== undefined,
  );
}

interface Sketch {
  states: readonly string[];
  arrows: readonly ArrowLayout[];
  framed: readonly string[];
}

async function layOut({ states, arrows, framed }: Sketch, direction: keyof typeof DIRECTIONS): Promise<Layout> {
  const nodeOf = (name: string): ElkNode => ({ id: name, width: widthOf(`* ${name}`, STATE), height: STATE.height });
  const frame: ElkNode = {
    id: FRAME,
    children: states.filter((name) => framed.includes(name)).map(nodeOf),
    layoutOptions: { "elk.padding": "[top=12,left=12,bottom=12,right=12]" },
  };
  const graph: ElkNode = {
    id: "root",
    layoutOptions: { ...OPTIONS, ...DIRECTIONS[direction] },
    children: [
      { id: START, width: START_PX, height: START_PX },
      ...(framed.length > 0 ? [frame] : []),
      ...states.filter((name) => !framed.includes(name)).map(nodeOf),
    ],
    edges: arrows.map(({ from, to, words }, index) => ({
      id: String(index),
      sources: [from.length === 0 ? START : from.length > 1 ? FRAME : from[0]!],
      targets: [to],
      labels: words.length === 0 ? [] : [{ text: " ", ...sizeOf(arrowLabelOf(words)) }],
    })),
  };
  const laid = await new elkjs.default().layout(graph);
  const children = laid.children ?? [];
  const inner = children.find(({ id }) => id === FRAME);
  const all = [...children, ...(inner?.children ?? [])];
  const start = boxOf(all.find(({ id }) => id === START)!);
  const edges = new Map((laid.edges ?? []).map((edge) => [edge.id, edge]));
  return {
    width: Math.ceil(laid.width ?? 0),
    height: Math.ceil(laid.height ?? 0),
    states: Object.fromEntries(
      all.filter(({ id }) => id !== START && id !== FRAME).map((node) => [node.id, boxOf(node)]),
    ),
    ...(inner && { frame: boxOf(inner) }),
    start: { x: start.x + START_PX / 2, y: start.y + START_PX / 2 },
    arrows: arrows.map((_, index) => wayOf(edges.get(String(index))!)),
  };
}

function wayOf({ sections, labels }: ElkExtendedEdge): Layout["arrows"][number] {
  const [section] = sections ?? [];
  if (!section) throw new Error("ELK has no way for an arrow");
  const { startPoint, bendPoints = [], endPoint } = section;
  const points = [startPoint, ...bendPoints, endPoint].map(({ x, y }) => ({ x: Math.round(x), y: Math.round(y) }));
  const [label] = labels ?? [];
  return { points, ...(label && { label: boxOf(label) }) };
}

const boxOf = ({ x = 0, y = 0, width = 0, height = 0 }: Partial<Box>): Box => ({
  x: Math.round(x),
  y: Math.round(y),
  width: Math.round(width),
  height: Math.round(height),
});

const widthOf = (text: string, { font, padding }: { font: number; padding: number }): number =>
  Math.ceil(text.length * font * EM) + 2 * padding;

const sizeOf = (lines: readonly string[]): Pick<Box, "width" | "height"> => ({
  width: Math.max(...lines.map((line) => widthOf(line, LABEL))),
  height: lines.length * LABEL.line + 2,
});
