/** A piece of a text that grows, and where it belongs there, in UTF-16 units. */
export interface TextPiece {
  readonly offset: number;
  readonly text: string;
}

/**
 * What a piece adds to a text of this length: all of it if it continues the text, its end if it overlaps the text,
 * nothing if it repeats it. Undefined: the piece is ahead, and the text before it is missing.
 */
export function additionTo(length: number, { offset, text }: TextPiece): string | undefined {
  return offset > length ? undefined : text.slice(length - offset);
}
