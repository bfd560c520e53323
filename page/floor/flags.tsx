import { type FormEvent, useState } from "react";
import { useClient } from "../../src/react/hooks.ts";
import type { FloorPicture } from "../log/floor-picture.ts";
import { useHere } from "../moment/here.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { restAfter } from "../parts/commands/rest-after.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import styles from "./floor.module.css";

/** The floor's flags: context for the rules of priorities. And the restrictions that they and the time switch on. */
export function FloorFlags({ flags, restrictedBy = [] }: Pick<FloorPicture, "flags" | "restrictedBy">) {
  const { say } = useWords();
  const client = useClient();
  const { floorId = "", isLive } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const [name, setName] = useState("");
  const set = (next: Record<string, boolean>) => act(() => client.changeFlags(floorId, next));
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (name !== "" && (await set({ [name]: true }))) setName((now) => restAfter(now, name));
  };
  return (
    <section className={styles["flags"]} aria-labelledby="flags">
      <h2 id="flags">{say("flags.title")}</h2>
      {Object.entries(flags).map(([flag, isSet]) => (
        <label key={flag}>
          <input
            type="checkbox"
            checked={isSet}
            disabled={!isLive || isBusy}
            onChange={({ target }) => void set({ [flag]: target.checked })}
          />{" "}
          {flag}
        </label>
      ))}
      {restrictedBy.length > 0 && <p>{say("flags.restricted", { names: restrictedBy.join(", ") })}</p>}
      <form onSubmit={(event) => void submit(event)}>
        <input
          value={name}
          maxLength={64}
          pattern="[a-z0-9_\-]+"
          title="a-z 0-9 _ -"
          placeholder={say("flags.name")}
          aria-label={say("flags.name")}
          disabled={!isLive}
          onChange={({ target }) => setName(target.value)}
        />
        <button type="submit" disabled={!isLive || isBusy || name === ""}>
          {say("flags.set")}
        </button>
      </form>
      <Outcome of={lastCommand} />
    </section>
  );
}
