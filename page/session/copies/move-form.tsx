import { useState } from "react";
import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { useWords } from "../../words/words.tsx";
import { NewSessionForm } from "./new-session-form.tsx";

/** Asks for the zone to which a session of a user moves, and opens the session in which it goes on. */
export function MoveForm({ session, onLeave }: { session: Session; onLeave: () => void }) {
  const { say } = useWords();
  const client = useClient();
  const [zone, setZone] = useState("");
  return (
    <NewSessionForm<HTMLInputElement>
      name={say("session.move")}
      yes={say("move.yes")}
      make={() => client.moveSession(session.id, zone.trim() || null)}
      onLeave={onLeave}
    >
      {(field) => (
        <label>
          {say("move.zone")}{" "}
          <input ref={field} value={zone} maxLength={128} onChange={({ target }) => setZone(target.value)} />
        </label>
      )}
    </NewSessionForm>
  );
}
