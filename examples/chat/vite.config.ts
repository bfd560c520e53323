import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const source = (path: string) => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));

export default defineConfig({
  plugins: [react()],
  // The content security policy of server.ts allows no inline scripts.
  build: { assetsInlineLimit: 0, emptyOutDir: true, modulePreload: { polyfill: false } },
  resolve: {
    // In this repository the packages are its sources. In yours, `npm install interlock` and leave `resolve` out.
    alias: {
      "interlock/client": source("client/interlock-client.ts"),
      "interlock/react": source("react/react.ts"),
    },
  },
});
