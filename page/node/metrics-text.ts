/** One sample of a node's metrics. */
export interface Sample {
  name: string;
  labels: Readonly<Record<string, string>>;
  value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)(?: \d+)?$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of a Prometheus text; other lines are skipped. */
export function readMetrics(text: string): Sample[] {
  return text.split("\n").flatMap((line) => {
    const [, name, labels = "", value] = LINE.exec(line) ?? [];
    if (name === undefined || value === undefined) return [];
    const number = value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value);
    if (Number.isNaN(number)) return [];
    const pairs = [...labels.matchAll(LABEL)].map(([, key = "", text = ""]) => [key, unescaped(text)]);
    return [{ name, labels: Object.fromEntries(pairs), value: number }];
  });
}

const unescaped = (text: string): string =>
  text.replace(/\\(.)/g, (_, letter: string) => (letter === "n" ? "\n" : letter));

/** The sum of a metric over all labels, or over the given ones; undefined if the node does not have it. */
export function total(
  samples: readonly Sample[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const fitting = samples.filter(
    (sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  );
  return fitting.length === 0 ? undefined : fitting.reduce((sum, { value }) => sum + value, 0);
}

/** The quantile of a histogram, as the bound of its bucket. Undefined without observations. */
export function quantile(samples: readonly Sample[], name: string, part: number): number | undefined {
  const counts = new Map<number, number>();
  for (const sample of samples) {
    if (sample.name !== `${name}_bucket`) continue;
    const bound = sample.labels["le"] === "+Inf" ? Number.POSITIVE_INFINITY : Number(sample.labels["le"]);
    counts.set(bound, (counts.get(bound) ?? 0) + sample.value);
  }
  const all = counts.get(Number.POSITIVE_INFINITY) ?? 0;
  if (all === 0) return undefined;
  const bounds = [...counts.keys()].sort((one, other) => one - other);
  return bounds.find((bound) => counts.get(bound)! >= all * part);
}

/** The largest bound of a histogram's buckets, above which no bucket tells values apart. */
export function largestBound(samples: readonly Sample[], name: string): number {
  const bounds = samples.filter((sample) => sample.name === `${name}_bucket`).map(({ labels }) => Number(labels["le"]));
  return Math.max(0, ...bounds.filter(Number.isFinite));
}

/** A label of a metric's first sample; undefined if the node does not have it. */
export const metricLabelOf = (samples: readonly Sample[], name: string, label: string): string | undefined =>
  samples.find((sample) => sample.name === name)?.labels[label];
