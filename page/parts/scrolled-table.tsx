import type { ReactNode } from "react";

interface Props {
  /** Its name, for screen readers. */
  label: string;
  heads: readonly string[];
  /** The classes of the box that scrolls, and of the table in it. */
  look: readonly (string | undefined)[];
  /** Its `tbody`, or several. */
  children: ReactNode;
}

/** A table that scrolls in a box of its own, with the keyboard too. */
export function ScrolledTable({ label, heads, look: [box, table], children }: Props) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
    <section className={box} tabIndex={0} aria-label={label}>
      <table className={table}>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        {children}
      </table>
    </section>
  );
}
