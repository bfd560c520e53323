#!/usr/bin/env node
import { readSettings } from "../config/settings.ts";
import { checkCatalog } from "./check.ts";
import { drive } from "./drive.ts";
import { serve } from "./serve.ts";

const USAGE = `interlock: which agent session has the floor

  interlock serve [--port 3000] [--config FILE] …   run a node; every setting is a flag, see docs/operations.md
  interlock check [FILE]                            is this a catalogue of agents? exit code 0, or 1 with its faults
  interlock drive [URL]                             play four scenes of a drive against a running node and print who
                                                    had the floor, and why; default http://127.0.0.1:3000; exit code 0,
                                                    or 1 if a scene did not go as the rules say. INTERLOCK_TOKEN is an
                                                    operator's token or key, for a node that asks for one
`;

const [command, ...rest] = process.argv.slice(2);
switch (command) {
  case "serve":
    await serve(rest);
    break;
  case "check": {
    const fallback = readSettings(process.env);
    const path = rest[0] ?? (fallback.ok ? fallback.settings.configPath : "config/agents_config.yaml");
    process.exitCode = await checkCatalog(path, process.stdout);
    break;
  }
  case "drive": {
    const stopping = new AbortController();
    process.once("SIGINT", () => stopping.abort());
    const options = { signal: stopping.signal };
    process.exitCode = await drive(rest[0] ?? "http://127.0.0.1:3000", process.stdout, options);
    break;
  }
  case "help":
  case "--help":
  case "-h":
    process.stdout.write(USAGE);
    break;
  default:
    process.stderr.write(command === undefined ? USAGE : `interlock: there is no command ${command}\n\n${USAGE}`);
    process.exitCode = 2;
}
