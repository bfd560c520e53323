import { type ReactNode, useState } from "react";

interface Props {
  summary: ReactNode;
  /** Only in the document while it is open: what nobody sees costs nothing as the moment moves. */
  children: () => ReactNode;
  className?: string | undefined;
}

/** A summary that unfolds what is beneath it. */
export function Fold({ summary, children, className }: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className={className} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen && children()}
    </details>
  );
}
