import type { Lane, Mark } from "../../../src/client/lanes.ts";
import type { Here } from "../../moment/here.tsx";
import { usePaintedTheme } from "../../parts/screen/use-painted-theme.ts";
import { useCanvas } from "../../parts/use-canvas.ts";
import { type Axis, PLAIN_AXIS } from "../folding.ts";
import { GapMarks } from "./gap-marks.tsx";
import { LaneName } from "./lane-name.tsx";
import type { LaneSpan } from "./lanes.ts";
import { LANE_PX, paintLanes } from "./paint-lanes.ts";
import styles from "./still-lanes.module.css";

interface Props extends Pick<Here, "linkTo" | "agentName"> {
  /** At most as many as fit the view. */
  lanes: readonly Lane[];
  marks: ReadonlyMap<string, readonly Mark[]>;
  axis?: Axis;
  /** On the axis. */
  span: LaneSpan;
  /** When the last states end, in ms since 1970. */
  end: number;
  /** What the picture shows, for screen readers. */
  label: string;
  /** What the beginning and the end of the span are called. */
  ends: readonly [string, string];
  /** Changes when the lanes change in place. */
  revision?: number;
}

/** A few lanes with their names, which neither scroll nor zoom. */
export function StillLanes({ lanes, marks, axis = PLAIN_AXIS, span, end, label, ends, revision, ...here }: Props) {
  const { linkTo, agentName } = here;
  const theme = usePaintedTheme();
  const picture = { lanes, marks, axis, span, first: 0, count: lanes.length, end };
  const canvas = useCanvas(
    (element) => paintLanes({ canvas: element, ...picture }),
    [lanes, marks, axis, span.from, span.to, end, revision, theme],
  );
  return (
    <>
      <div className={styles["lanes"]} style={{ height: lanes.length * LANE_PX }}>
        <ul>
          {lanes.map(({ sessionId, agentId, title }) => (
            <LaneName
              key={sessionId}
              agent={agentName(agentId)}
              title={title}
              href={linkTo("session", { sessionId })}
              style={{ height: LANE_PX }}
            />
          ))}
        </ul>
        <div className={styles["field"]}>
          <canvas ref={canvas} role="img" aria-label={label} />
          <GapMarks gaps={axis.gapsIn(span)} span={span} />
        </div>
      </div>
      <AxisEnds ends={ends} />
    </>
  );
}

/** The times at both ends of lanes. */
export function AxisEnds({ ends: [from, to] }: Pick<Props, "ends">) {
  return (
    <p className={styles["axis"]} aria-hidden="true">
      <span>{from}</span>
      <span>{to}</span>
    </p>
  );
}
