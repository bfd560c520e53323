import { Supervisor } from "../../../src/agents/process/supervisor.ts";

/**
 * A worker that runs a program. Prints what the program prints.
 */
const clock = { now: () => 0, after: () => ({ cancel: () => {} }) };
const supervisor = new Supervisor({ clock });
const [file, ...args] = JSON.parse(process.argv[2] ?? "[]") as [string, ...string[]];
const env = { PATH: process.env["PATH"] ?? "", TEST_TAG: process.env["PROGRAM_TAG"] ?? "" };
const child = await supervisor.start({ file, args, cwd: process.cwd(), env });
child.stdout.pipe(process.stdout);
