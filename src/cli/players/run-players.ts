import { existsSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient } from "../../client/interlock-client.ts";
import { PlayersFile } from "../../config/players-file.ts";
import { readYamlFile } from "../../config/yaml-file.ts";
import { type BridgeRun, keptPathOf, runBridge } from "../playing/run-bridge.ts";
import { bridgePlayers } from "./players.ts";

export interface PlayersRun extends BridgeRun {
  /** Default: the name of the process's user. */
  userId: string | undefined;
}

/** `interlock players`. @returns the exit code */
export async function players(file: string | undefined, run: PlayersRun): Promise<number> {
  const path = file ?? usualFile(process.env);
  return runBridge(run, await readYamlFile(path, PlayersFile), async ({ options, ...parts }) => {
    const userId = run.userId ?? userInfo().username;
    parts.lanes.say(`players of ${path}, on the floor of ${userId} at ${run.url}`);
    await bridgePlayers({ ...parts, client: createClient(options), userId, keptPath: keptPathOf("players.json") });
  });
}

function usualFile(env: NodeJS.ProcessEnv): string {
  const own = join(env["XDG_CONFIG_HOME"] || join(homedir(), ".config"), "interlock", "players.yaml");
  const usual = ["players.yaml", own].find((path) => existsSync(path));
  return usual ?? fileURLToPath(new URL("../../../config/players.yaml", import.meta.url));
}
