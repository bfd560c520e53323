import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { compressed } from "./build/compressed.ts";
import { generated } from "./build/generated.ts";

/** The browsers that docs/use/client.md names. */
export const OLDEST_BROWSERS = ["chrome116", "edge116", "firefox125", "safari17.4"];

const API = [
  "session",
  "message",
  "floor",
  "floors",
  "agents",
  "events",
  "ticket",
  "cookie",
  "health",
  "ready",
  "metrics",
  "nodes",
];

export default defineConfig({
  // Relative URLs, because a proxy may serve the page under another path.
  base: "./",
  plugins: [
    react(),
    generated("virtual:charts", "draw-charts.ts"),
    generated("virtual:log-schema", "log-schema.ts"),
    compressed(),
  ],
  build: {
    outDir: fileURLToPath(new URL("../dist/page", import.meta.url)),
    emptyOutDir: true,
    target: OLDEST_BROWSERS,
    // The content security policy allows neither data: addresses nor inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Compression takes most of the short build.
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  // `npx vite page` for development, with a node on its default port.
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(API.map((path) => [`/${path}`, { target: "http://127.0.0.1:3000" }])),
  },
});
