import type { CSSProperties } from "react";
import styles from "./lane-name.module.css";

interface Props {
  agent: string;
  title: string;
  href: string;
  style: CSSProperties;
}

/** The name of a lane, as a link to its session. */
export function LaneName({ agent, title, href, style }: Props) {
  return (
    <li className={styles["name"]} style={style}>
      <a href={href} title={title}>
        {agent} <small>{title}</small>
      </a>
    </li>
  );
}
