import { writeFile } from "node:fs/promises";
import { createInterface } from "node:readline/promises";
import { clientOf, explainFailure } from "./node-client.ts";
import { complain, counted, printableLine, printLines } from "./printed-lines.ts";

const SECRET_MODE = 0o600;
const LAST_LINE = /\n\{"type":"complete","sessions":(\d+)\}\n$/;

export interface ForgetOptions {
  url: string;
  /** A new file for a copy of the deleted data. */
  export?: string | undefined;
  /** Do not ask. */
  yes?: boolean | undefined;
}

type Terminal = Pick<NodeJS.Process, "stdin" | "stdout" | "stderr" | "env">;

/**
 * `interlock forget`: delete a user's sessions and all else about it. On a terminal it asks first; in a pipe it needs
 * `yes`.
 * @returns the exit code: 0, or 1 if nothing or not all is deleted
 */
export async function runForget(userId: string, options: ForgetOptions, terminal: Terminal): Promise<number> {
  const { stdin, stdout, stderr, env } = terminal;
  const client = clientOf(options.url, env);
  const refuse = (why: string) => {
    complain(stderr, why);
    return 1;
  };
  try {
    const { total } = await client.listSessions({ userId, includeArchived: true, pageSize: 1 });
    if (!options.yes) {
      if (!stdin.isTTY) return refuse("nothing was deleted: confirm with --yes");
      const prompt = createInterface({ input: stdin, output: stdout });
      const answer = await prompt.question(
        printableLine(`Delete ${counted(total, "session")} of ${userId}, for ever? [y/N] `),
      );
      prompt.close();
      if (!/^y(es)?$/i.test(answer.trim())) return refuse("nothing was deleted");
    }
    if (options.export !== undefined) {
      const text = await (await client.exportUser(userId)).text();
      if (!LAST_LINE.test(text)) return refuse("nothing was deleted, because the export was cut off");
      // On the disk before anything is deleted.
      await writeFile(options.export, text, { flag: "wx", mode: SECRET_MODE, flush: true });
    }
    const { sessions, remains } = await client.forgetUser(userId);
    if (sessions === 0)
      return refuse(`there was no session of ${userId}: is the name right? What else was known of it is deleted`);
    printLines(stdout, [
      `Deleted: ${counted(sessions, "session")} of ${userId}, with its decisions, receipts and images`,
      ...[...remains, COUNTERS, BACKUPS].map((sentence) => `  ${sentence}`),
    ]);
    return 0;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return refuse(`nothing was deleted, because ${options.export} exists: name a new file`);
    if ((error as NodeJS.ErrnoException).syscall) return refuse(`nothing was deleted: ${(error as Error).message}`);
    return refuse(explainFailure(error, { baseUrl: options.url, env }));
  }
}

const COUNTERS = "The names of its floors stay, with two counters each, which must not begin again.";
const BACKUPS = "Backups, the logs of nodes, and what providers of models have stored are not touched.";
