import { deployed } from "./deployment.ts";

export interface DashboardQuery {
  panel: string;
  /** PromQL, as Grafana sends it for all nodes. */
  expr: string;
}

interface Panel {
  type: string;
  title: string;
  description?: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { expr: string; legendFormat: string }[];
}

/** The panels of the dashboard, without the rows that group them. */
export const panelsOfDashboard = (JSON.parse(deployed("grafana.json")) as { panels: Panel[] }).panels.filter(
  ({ type }) => type !== "row",
);

/** What stands for a variable of Grafana. */
const VARIABLES: Readonly<Record<string, string>> = { $__rate_interval: "5m", $__range: "1h", $instance: ".*" };

/** Every query of the dashboard. */
export const dashboardQueries: DashboardQuery[] = panelsOfDashboard.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ panel: title, expr: expr.replace(/\$\w+/g, (name) => VARIABLES[name] ?? name) })),
);
