/** What npm users enter by: a node to embed in a process of their own. */
export { type App, type AppOptions, CatalogError, createApp, VERSION } from "./app.ts";
export { readSettings, type Settings } from "./config/settings.ts";
export { AppError, type ErrorCode } from "./protocol/errors.ts";
export type { Logger } from "./protocol/logger.ts";
