import type { Session } from "../../../src/protocol/session.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { useHere } from "../../moment/here.tsx";
import { Menu } from "../../parts/commands/menu.tsx";
import { saveFile } from "../../parts/commands/save-file.ts";
import { isExternal } from "../../parts/external-agent.ts";
import type { Act } from "../../parts/use-act.ts";
import { useWords } from "../../words/words.tsx";
import type { Question } from "./session-questions.tsx";

interface Props {
  session: Session;
  hasTurns: boolean;
  mayDelete: boolean;
  lastCommand: Act;
  onQuestion: (question: Question) => void;
}

/** Copies a session, moves it to another floor of its user, takes back its last turn, saves it and deletes it. */
export function SessionMenu({ session, hasTurns, mayDelete, lastCommand: { act, isBusy }, onQuestion }: Props) {
  const { say } = useWords();
  const client = useClient();
  const { agents } = useHere();
  const { id, title, state, userId } = session;
  const mayRollBack = hasTurns && state !== "archived" && !isExternal(agents, session);
  const save = (format: "md" | "jsonl") =>
    act(async () => saveFile(await client.exportSession(id, format), title, format));
  const items = [
    { text: say("session.fork"), choose: () => onQuestion("fork") },
    ...(userId !== undefined && state !== "archived"
      ? [{ text: say("session.move"), choose: () => onQuestion("move") }]
      : []),
    ...(mayRollBack ? [{ text: say("session.rollback"), choose: () => onQuestion("rollback") }] : []),
    { text: say("session.exportmd"), choose: () => void save("md") },
    { text: say("session.exportjsonl"), choose: () => void save("jsonl") },
    ...(mayDelete ? [{ text: say("session.delete"), choose: () => onQuestion("delete") }] : []),
  ];
  return <Menu label={say("session.more")} items={items} disabled={isBusy} />;
}
