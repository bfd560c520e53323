/** Generated while the page is built: page/build/charts.ts. */
declare module "virtual:charts" {
  export const charts: readonly import("./machine/chart.ts").Chart[];
}
