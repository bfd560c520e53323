// Generated while the page is built: page/build/generated.ts.

declare module "virtual:charts" {
  export const data: readonly import("./machine/chart.ts").Chart[];
}

declare module "virtual:log-schema" {
  export const data: import("./log/schema-fault.ts").LogSchema;
}
