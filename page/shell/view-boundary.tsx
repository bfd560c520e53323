import { Component, type ReactNode } from "react";
import { CopyButton } from "../parts/commands/copy-button.tsx";
import { Outcome } from "../parts/commands/outcome.tsx";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import styles from "./frame.module.css";

interface Props {
  /** What the part shows: with another value it is tried again. */
  of?: string;
  children: ReactNode;
}

/** A part of the page that throws does not affect the rest: its fault is shown in its place. */
export class ViewBoundary extends Component<Props, { error?: unknown }> {
  override state: { error?: unknown } = {};

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error: error ?? "unknown" };
  }

  override componentDidUpdate({ of }: Props): void {
    if (of !== this.props.of && this.state.error !== undefined) this.setState({ error: undefined });
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return <Failure error={error} onAgain={() => this.setState({ error: undefined })} />;
  }
}

/** Shown in place of the view. */
function Failure({ error, onAgain }: { error: unknown; onAgain: () => void }) {
  const { say } = useWords();
  const lastCommand = useAct();
  return (
    <div className={styles["failure"]} role="alert">
      <p>{say("failure.title")}</p>
      <code>{String(error)}</code>
      <CopyButton text={textOf(error)} act={lastCommand.act} />
      <button type="button" onClick={onAgain}>
        {say("failure.again")}
      </button>
      <Outcome of={lastCommand} />
    </div>
  );
}

/** The details for a report of the fault. */
const textOf = (error: unknown): string => (error instanceof Error ? `${error}\n${error.stack}` : String(error));
