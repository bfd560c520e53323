import { readdirSync } from "node:fs";
import createCompletion from "@bomb.sh/tab/commander";
import type { Command } from "commander";

const FOLDERS = ["config/", ""];
/** The maximum number of files that are offered. */
const MAX_FILES = 200;

/** Add `interlock complete bash|zsh|fish`, which prints the script that a shell loads. */
export function addCompletion(program: Command): void {
  const completion = createCompletion(program);
  for (const command of program.commands) {
    if (!command.registeredArguments.some((argument) => argument.name() === "file")) continue;
    completion.commands.get(command.name())?.argument("file", (offer) => {
      for (const path of catalogues()) offer(path, "");
    });
  }
}

/** The YAML files here and in config/. */
function catalogues(): string[] {
  const names = FOLDERS.flatMap((folder) => {
    try {
      return readdirSync(folder || ".").map((name) => `${folder}${name}`);
    } catch {
      return [];
    }
  });
  return names.filter((name) => /\.ya?ml$/.test(name)).slice(0, MAX_FILES);
}
