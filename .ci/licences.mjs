#!/usr/bin/env node
// `npm run licences` lists the licence of each package that an installation of Interlock brings: its dependencies, and theirs.
// With `-- --check` it fails if one states none, or one that is not permissive.
import { readFileSync } from "node:fs";

const PERMISSIVE = new Set(["0BSD", "Apache-2.0", "BlueOak-1.0.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Python-2.0", "Unlicense"]);
const { packages } = JSON.parse(readFileSync(new URL("../package-lock.json", import.meta.url), "utf8"));
const rows = Object.entries(packages)
  .filter(([path, { dev, peer }]) => path.startsWith("node_modules/") && !dev && !peer)
  .map(([path, { version, license = "none stated" }]) => ({ name: path.split("node_modules/").at(-1), version, license }))
  .sort((one, other) => (one.name < other.name ? -1 : 1));
for (const { name, version, license } of rows) console.log(`${license.padEnd(16)} ${name} ${version}`);
const isPermissive = (license) => license.replace(/[()]/g, "").split(" OR ").some((each) => each.split(" AND ").every((one) => PERMISSIVE.has(one)));
const strange = rows.filter(({ license }) => !isPermissive(license));
if (process.argv.includes("--check") && strange.length > 0) {
  console.error(`Not permissive: ${strange.map(({ name, license }) => `${name} (${license})`).join(", ")}`);
  process.exitCode = 1;
}
