import { CommanderError } from "commander";
import { MISUSED, type Stdout } from "./command-line.ts";
import { addCompletion } from "./completion.ts";
import { createProgram } from "./program.ts";

const stdout: Stdout = {
  onError: (error) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(0);
  },
};
process.stdout.on("error", (error) => stdout.onError(error));
const program = createProgram(stdout);
addCompletion(program);
try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? 0 : MISUSED;
}
