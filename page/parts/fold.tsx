import { type ReactNode, useState } from "react";

interface Props {
  summary: ReactNode;
  /** In the document only while it is open, so that a closed fold costs nothing as the moment moves. */
  children: () => ReactNode;
  className?: string | undefined;
  /** Whether the row keys stop at its summary. */
  isRow?: boolean;
}

/** A summary that unfolds its content. */
export function Fold({ summary, children, className, isRow }: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className={className} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary data-row={isRow}>{summary}</summary>
      {isOpen && children()}
    </details>
  );
}
