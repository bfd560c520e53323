import type { FormEvent } from "react";
import { useWords } from "../words/words.tsx";
import styles from "./floor-form.module.css";
import { floorIdOf } from "./floor-name.ts";

/** Opens the floor of a user, who may have none yet. */
export function FloorForm({ firstUser, onOpen }: { firstUser?: string; onOpen: (floorId: string) => void }) {
  const { say } = useWords();
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const userId = String(form.get("user") ?? "").trim();
    if (userId !== "") onOpen(floorIdOf(userId, String(form.get("zone") ?? "").trim()));
  };
  return (
    <form onSubmit={submit} className={styles["form"]}>
      <input
        name="user"
        required
        maxLength={128}
        defaultValue={firstUser}
        aria-label={say("floor.user")}
        placeholder={say("floor.user")}
      />
      <input name="zone" maxLength={128} aria-label={say("floor.zone")} placeholder={say("floor.zone")} />
      <button type="submit">{say("floor.open")}</button>
    </form>
  );
}
