import { Component, type ReactNode } from "react";
import styles from "./frame.module.css";

interface Props {
  /** Shown in place of the view. */
  title: string;
  again: string;
  copy: string;
  children: ReactNode;
}

/** A view that throws does not affect the rest of the page. */
export class ViewBoundary extends Component<Props, { error?: unknown }> {
  override state: { error?: unknown } = {};

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error: error ?? "unknown" };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return (
      <div className={styles["failure"]} role="alert">
        <p>{this.props.title}</p>
        <code>{String(error)}</code>
        <button type="button" onClick={() => void navigator.clipboard?.writeText(textOf(error)).catch(() => undefined)}>
          {this.props.copy}
        </button>
        <button type="button" onClick={() => this.setState({ error: undefined })}>
          {this.props.again}
        </button>
      </div>
    );
  }
}

/** The details for a report of the fault. */
const textOf = (error: unknown): string => (error instanceof Error ? `${error}\n${error.stack}` : String(error));
