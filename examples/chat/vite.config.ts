import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const source = (path: string) => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));
/** In this repository the packages are its sources; elsewhere they are installed. */
const SOURCES = {
  "interlock/client": source("client/interlock-client.ts"),
  "interlock/react": source("react/react.ts"),
};

export default defineConfig({
  plugins: [react()],
  // The content security policy of server.ts allows no inline scripts.
  build: { assetsInlineLimit: 0, emptyOutDir: true, modulePreload: { polyfill: false } },
  resolve: { alias: Object.values(SOURCES).every(existsSync) ? SOURCES : {} },
});
