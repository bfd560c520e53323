import { type ChildProcess, spawn } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { fileURLToPath } from "node:url";

/**
 * A setup file: the programs that this process starts end with it at the latest, however it ends. A process of its own
 * is told of each program, and ends what is left when its pipe to this process is closed.
 */
const WATCH = fileURLToPath(new URL("./program-watch.ts", import.meta.url));
const IS_SET_UP = Symbol.for("interlock.own-programs");

let watch: ChildProcess | undefined;

/** Starts with the first program, because most test files start none. */
function tell(line: string): void {
  if (!watch) {
    // In a process group of its own, so that Ctrl-C in a terminal and a signal to the group of the tests do not end it.
    watch = spawn(process.execPath, [WATCH], { detached: true, stdio: ["pipe", "ignore", "inherit"] });
    watch.unref();
    // The process is over, or was never there: nothing is left to be told.
    watch.stdin!.on("error", () => {});
    (watch.stdin as unknown as { unref(): void }).unref();
  }
  watch.stdin!.write(`${line}\n`);
}

function setUp(): void {
  subscribe("child_process", (message) => {
    const { process: program } = message as { process: ChildProcess };
    program.once("spawn", () => {
      if (program === watch) return;
      tell(`+${program.pid}`);
      program.once("exit", () => tell(`-${program.pid}`));
    });
  });
  // The main process of the tests was killed, and can no longer end this one.
  process.once("disconnect", () => process.exit(1));
}

// Test files that share a process load this file anew.
if (!Reflect.has(globalThis, IS_SET_UP)) {
  Reflect.set(globalThis, IS_SET_UP, true);
  setUp();
}
