import type { WordKey } from "../words/en.ts";
import { useWords } from "../words/words.tsx";
import { type Look, signOf } from "./look.ts";
import styles from "./state-sign.module.css";

export function StateSign({ look }: { look: Look }) {
  const { say } = useWords();
  return (
    <span className={styles["sign"]} data-look={look}>
      <span className={styles["lamp"]} data-lamp aria-hidden="true">
        {signOf(look)}
      </span>
      {say(`state.${look}` satisfies WordKey)}
    </span>
  );
}
