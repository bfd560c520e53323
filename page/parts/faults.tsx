import type { CatalogueFault } from "../../src/client/answers.ts";

/** The faults of a catalogue, each with its line and column. */
export function Faults({ faults }: { faults: readonly CatalogueFault[] }) {
  return (
    <ul>
      {faults.map(({ line, column, path, message }) => (
        <li key={`${line}:${column}:${path}:${message}`}>
          <code>{`${line}:${column} ${path}`}</code> {message}
        </li>
      ))}
    </ul>
  );
}
