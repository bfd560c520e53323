import { Lexer, type Token, type Tokens } from "marked";
import { Fragment, memo, type ReactNode, useMemo } from "react";
import remend from "remend";
import { decodeEntities } from "./entities.ts";
import styles from "./session.module.css";

/** Deeper blocks are shown as plain text: a document of a million `>` must not overflow the stack. */
const MAX_DEPTH = 24;

interface Props {
  text: string;
  /** The ends of open constructs have not arrived yet: they are closed provisionally. */
  isStreaming: boolean;
}

/** Markdown as React elements. No string of the text becomes HTML, so no sanitiser is needed. */
export const Markdown = memo(function Markdown({ text, isStreaming }: Props) {
  const blocks = useMemo(
    () => new Lexer({ gfm: true, breaks: true }).blockTokens(isStreaming ? remend(text) : text),
    [text, isStreaming],
  );
  return (
    <div className={styles["markdown"]}>
      {blocks.map((block, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: text grows at its end, and a block keeps its place.
        <Block key={index} raw={block.raw} type={block.type} />
      ))}
    </div>
  );
});

/** A block is parsed by itself, and only when its text changes: a long answer costs its last block only. */
const Block = memo(function Block({ raw }: { raw: string; type: string }) {
  return <Nodes tokens={new Lexer({ gfm: true, breaks: true }).lex(raw)} depth={0} />;
});

function Nodes({ tokens, depth }: { tokens: readonly Token[] | undefined; depth: number }): ReactNode {
  // biome-ignore lint/suspicious/noArrayIndexKey: text grows at its end, and a piece keeps its place.
  return (tokens ?? []).map((token, index) => <Fragment key={index}>{elementOf(token, depth)}</Fragment>);
}

function elementOf(token: Token, depth: number): ReactNode {
  if (depth > MAX_DEPTH) return token.raw;
  const inside = <Nodes tokens={"tokens" in token ? token.tokens : undefined} depth={depth + 1} />;
  switch (token.type) {
    case "paragraph":
      return <p>{inside}</p>;
    case "heading":
      // The page's own headings use the first three levels.
      return token.depth <= 2 ? <h3>{inside}</h3> : <h4>{inside}</h4>;
    case "code":
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
        <pre tabIndex={0}>
          <code>{token.text}</code>
        </pre>
      );
    case "blockquote":
      return <blockquote>{inside}</blockquote>;
    case "list":
      return <List list={token as Tokens.List} depth={depth} />;
    case "table":
      return <Table table={token as Tokens.Table} depth={depth} />;
    case "hr":
      return <hr />;
    case "br":
      return <br />;
    case "strong":
      return <strong>{inside}</strong>;
    case "em":
      return <em>{inside}</em>;
    case "del":
      return <del>{inside}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "link":
      return linkOf(decodeEntities(token.href), inside);
    case "image":
      // An image of another origin would tell its owner who reads this.
      return token.text;
    case "escape":
      return token.text;
    case "text":
      return "tokens" in token && token.tokens ? inside : decodeEntities(token.text);
    case "space":
    case "def":
      return undefined;
    default:
      // HTML is shown as text.
      return token.raw;
  }
}

function linkOf(href: string, inside: ReactNode): ReactNode {
  if (!/^(?:https?:|mailto:)/i.test(href)) return inside;
  return (
    <a href={href} target="_blank" rel="noreferrer noopener">
      {inside}
    </a>
  );
}

function List({ list: { ordered, start, items }, depth }: { list: Tokens.List; depth: number }) {
  const rows = items.map((item, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: as above.
    <li key={index}>
      {item.task && (item.checked ? "☑ " : "☐ ")}
      <Nodes tokens={item.tokens.filter(({ type }) => type !== "checkbox")} depth={depth + 1} />
    </li>
  ));
  return ordered ? <ol start={Number(start) || 1}>{rows}</ol> : <ul>{rows}</ul>;
}

/** React sets it without a `style` attribute, which the page's policy would refuse. */
const alignmentOf = ({ align }: Tokens.TableCell) => (align ? { textAlign: align } : undefined);

function Table({ table: { header, rows }, depth }: { table: Tokens.Table; depth: number }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
    <div className={styles["table"]} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {header.map((cell, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: as above.
              <th key={index} scope="col" style={alignmentOf(cell)}>
                <Nodes tokens={cell.tokens} depth={depth + 1} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: as above.
            <tr key={index}>
              {row.map((cell, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: as above.
                <td key={column} style={alignmentOf(cell)}>
                  <Nodes tokens={cell.tokens} depth={depth + 1} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
