import { useClient } from "../../../src/react/hooks.ts";
import { useHere } from "../../moment/here.tsx";
import { FileButton } from "../../parts/commands/file-button.tsx";
import { Outcome } from "../../parts/commands/outcome.tsx";
import { userOfFloor } from "../../parts/floor-name.ts";
import { useAct } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import { useOpenSession } from "./open-session.ts";

/** The server's limit for a file, in bytes: a larger one is not sent. */
const MAX_IMPORT_BYTES = 402_653_184;

/** Creates a session of the floor's user from an exported file. */
export function Import() {
  const { say } = useWords();
  const client = useClient();
  const { floorId = "" } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const openSession = useOpenSession();
  const read = (file: File) =>
    act(async () => {
      if (file.size > MAX_IMPORT_BYTES) throw new Error(say("log.toolarge"));
      openSession((await client.importSession(file, userOfFloor(floorId))).session);
    });
  return (
    <>
      <FileButton
        label={say("sessions.import")}
        accept=".jsonl,.ndjson,application/x-ndjson"
        disabled={isBusy}
        onFile={(file) => void read(file)}
      >
        {say("sessions.import")}
      </FileButton>
      <Outcome of={lastCommand} />
    </>
  );
}
