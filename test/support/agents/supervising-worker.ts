import { Supervisor } from "../../../src/agents/process/supervisor.ts";

/** A worker whose program runs, and has started another in a session of its own. Prints the program's pid. */
const clock = { now: () => 0, after: () => ({ cancel: () => {} }) };
const supervisor = new Supervisor({ clock });
const [file, ...args] = JSON.parse(process.argv[2] ?? "[]") as [string, ...string[]];
const env = { PATH: process.env["PATH"] ?? "", TEST_TAG: process.env["PROGRAM_TAG"] ?? "" };
const child = await supervisor.start({ file, args, cwd: process.cwd(), env });
child.stdout.once("data", () => process.stdout.write(`${child.pid}\n`));
