/** The entry point of the npm package: a node to embed in another process. */

export { readSettings, type Settings } from "./config/settings.ts";
export { type App, type AppOptions, createApp } from "./node/app.ts";
export { CatalogError } from "./node/node-catalog.ts";
export { AppError, type ErrorCode } from "./protocol/errors.ts";
export type { Logger } from "./shared/ports/logger.ts";
export { VERSION } from "./system/version.ts";
