import styles from "./tree.module.css";

/** A value as nested lists. */
export function Tree({ value }: { value: object }) {
  return (
    <dl className={styles["tree"]}>
      {Object.entries(value).map(([name, each]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof each === "object" && each !== null ? <Tree value={each} /> : String(each)}</dd>
        </div>
      ))}
    </dl>
  );
}
