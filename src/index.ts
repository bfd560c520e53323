/** The entry point of the npm package: a node to embed in another process. */
export { type App, type AppOptions, createApp } from "./app.ts";
export { readSettings, type Settings } from "./config/settings.ts";
export { CatalogError } from "./node-catalog.ts";
export { AppError, type ErrorCode } from "./protocol/errors.ts";
export type { Logger } from "./protocol/ports/logger.ts";
export { VERSION } from "./version.ts";
