import { type ReactNode, useState } from "react";

interface Props {
  summary: ReactNode;
  /** Only in the document while it is open: what nobody sees costs nothing as the moment moves. */
  children: () => ReactNode;
  className?: string | undefined;
  /** The keys for rows go to its summary. */
  isRow?: boolean;
}

/** A summary that unfolds what is beneath it. */
export function Fold({ summary, children, className, isRow }: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className={className} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary data-row={isRow}>{summary}</summary>
      {isOpen && children()}
    </details>
  );
}
