import styles from "./node.module.css";

const WIDTH = 160;
const HEIGHT = 24;

/** The recent values of a metric; the number beside it is the current one. */
export function Sparkline({ values }: { values: readonly number[] }) {
  const most = Math.max(1, ...values);
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((value, index) => `${index * step},${HEIGHT - 1 - (value / most) * (HEIGHT - 2)}`);
  return (
    <svg className={styles["line"]} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <polyline points={points.join(" ")} />
    </svg>
  );
}
