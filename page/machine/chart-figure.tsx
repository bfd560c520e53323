import { memo, useLayoutEffect, useRef, useState } from "react";
import { useHere } from "../moment/here.tsx";
import { signOf } from "../parts/look.ts";
import { useWords } from "../words/words.tsx";
import {
  type ArrowLayout,
  arrowLabelOf,
  type Box,
  type Layout,
  type Point,
  type RegionLayout,
  wordText,
} from "./chart.ts";
import styles from "./machine.module.css";
import { lookOfState } from "./machine-state.ts";

/** The smallest scale of a chart; a chart that is still larger scrolls. */
const MIN_SCALE = 0.9;
const CORNER = 6;
const HEAD = 7;

interface Props {
  title: string;
  region: RegionLayout;
  /** The machine's state; undefined if it is unknown. */
  state: string | undefined;
  /** Further information about that state. */
  note?: string | undefined;
  /** The last transition's arrow, and a key that differs for each transition. */
  traversed?: { arrow: number; key: string } | undefined;
  /** The scale at which the charts fit the height of their column, if they stand in one. */
  fitting?: number | undefined;
}

/** A region of a machine: its states, its transitions, and the current state. */
export function ChartFigure({ title, region, state, note, traversed, fitting = 1 }: Props) {
  const { say } = useWords();
  const { isLive } = useHere();
  const box = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = box.current!;
    const watching = new ResizeObserver(() => setWidth(element.clientWidth));
    watching.observe(element);
    setWidth(element.clientWidth);
    return () => watching.disconnect();
  }, []);
  const isWide = width >= region.wide.width * MIN_SCALE;
  const layout = isWide ? region.wide : region.tall;
  const scale = Math.min(1, Math.max(MIN_SCALE, Math.min(fitting, width / layout.width)));
  const arrow = traversed && region.arrows[traversed.arrow];
  const sentence = [
    state === undefined ? say("machine.unknown") : say("machine.in", { state }),
    ...(arrow ? [say("machine.came", { from: arrow.from.join(", "), to: arrow.to })] : []),
  ].join(" ");
  return (
    <figure className={styles["figure"]}>
      <figcaption>
        {title} <b className={styles["value"]}>{state ?? "…"}</b>
      </figcaption>
      <section
        ref={box}
        className={styles["sheet"]}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
        tabIndex={0}
        aria-label={title}
      >
        <svg
          // At a past moment nothing is animated.
          className={isLive ? undefined : styles["still"]}
          width={layout.width * scale}
          height={layout.height * scale}
          viewBox={`0 0 ${layout.width} ${layout.height}`}
          role="img"
          aria-label={`${title}. ${sentence}`}
        >
          {layout.frame && <rect className={styles["frame"]} {...layout.frame} rx={12} />}
          <circle className={styles["start"]} cx={layout.start.x} cy={layout.start.y} r={6} />
          {region.arrows.map((each, index) => (
            <Arrow
              key={`${each.from.join()} ${each.to}`}
              arrow={each}
              layout={layout.arrows[index]!}
              isTraversed={traversed?.arrow === index}
            />
          ))}
          {traversed && isLive && <Runner key={traversed.key} points={layout.arrows[traversed.arrow]!.points} />}
          {region.states.map((each) => (
            <State
              key={each.name}
              name={each.name}
              box={layout.states[each.name]!}
              stays={each.stays}
              isLit={each.name === state}
              note={each.name === state ? note : undefined}
            />
          ))}
        </svg>
      </section>
    </figure>
  );
}

interface StateProps {
  name: string;
  box: Box;
  stays: readonly string[];
  isLit: boolean;
  note: string | undefined;
}

const State = memo(function State({ name, box: { x, y, width, height }, stays, isLit, note }: StateProps) {
  const look = lookOfState(name);
  const below = note ?? (stays.length > 0 ? `↻ ${stays.length}` : undefined);
  const middle = x + width / 2;
  return (
    <g className={styles["state"]} data-state={name} data-lit={isLit} data-look={look}>
      <title>{[name, ...stays.map((event) => `↻ ${event}`)].join("\n")}</title>
      <rect x={x} y={y} width={width} height={height} rx={8} />
      <text className={styles["label"]} x={middle} y={y + (below === undefined ? height / 2 : height / 2 - 7)}>
        {isLit ? `${signOf(look)} ${name}` : name}
      </text>
      {below !== undefined && (
        <text className={styles["below"]} x={middle} y={y + height / 2 + 10}>
          {below}
        </text>
      )}
    </g>
  );
});

interface ArrowProps {
  arrow: ArrowLayout;
  layout: Layout["arrows"][number];
  isTraversed: boolean;
}

const Arrow = memo(function Arrow({ arrow: { words }, layout: { points, label }, isTraversed }: ArrowProps) {
  // The label may omit some words.
  const about = words.map(wordText).join("\n");
  return (
    <g className={styles["arrow"]} data-traversed={isTraversed}>
      {about !== "" && <title>{about}</title>}
      <path d={pathOf(points)} />
      <polygon points={headOf(points)} />
      {label && (
        <>
          <rect className={styles["plate"]} {...label} rx={4} />
          <text className={styles["words"]}>
            {arrowLabelOf(words).map((word, line) => (
              <tspan key={word} x={label.x + label.width / 2} y={label.y + 9 + line * 14}>
                {word}
              </tspan>
            ))}
          </text>
        </>
      )}
    </g>
  );
});

/** Animates a transition along its arrow. */
function Runner({ points }: { points: Layout["arrows"][number]["points"] }) {
  return <circle className={styles["runner"]} r={5} style={{ offsetPath: `path("${pathOf(points)}")` }} />;
}

/** A line through the points with rounded corners. */
function pathOf(points: readonly Point[]): string {
  const steps = points.map((point, index) => {
    const [before, after] = [points[index - 1], points[index + 1]];
    if (!before) return `M${point.x} ${point.y}`;
    if (!after) return `L${point.x} ${point.y}`;
    const [into, out] = [towards(point, before), towards(point, after)];
    return `L${into.x} ${into.y}Q${point.x} ${point.y} ${out.x} ${out.y}`;
  });
  return steps.join("");
}

function towards(from: Point, to: Point): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const part = Math.min(CORNER, length / 2) / length;
  return { x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part };
}

function headOf(points: readonly Point[]): string {
  const [before, tip] = points.slice(-2) as [Point, Point];
  const length = Math.hypot(tip.x - before.x, tip.y - before.y) || 1;
  const [dx, dy] = [((tip.x - before.x) / length) * HEAD, ((tip.y - before.y) / length) * HEAD];
  const corner = (side: number) => `${tip.x - dx + (dy * side) / 2},${tip.y - dy - (dx * side) / 2}`;
  return `${tip.x},${tip.y} ${corner(1)} ${corner(-1)}`;
}
