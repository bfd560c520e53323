import { useWords } from "../../words/words.tsx";
import type { Act } from "../use-act.ts";

/** Copies a text to the clipboard. */
export function CopyButton({ text, act }: { text: string } & Pick<Act, "act">) {
  const { say } = useWords();
  return (
    <button
      type="button"
      onClick={() =>
        void act(
          () => navigator.clipboard.writeText(text),
          () => say("told.copied"),
        )
      }
    >
      {say("session.copy")}
    </button>
  );
}
