/**
 * What stays in a field when the text that was sent from it is accepted. While a command waits for its answer, its user
 * may go on typing, or change the text: then all of it is new.
 */
export function restAfter(text: string, sent: string): string {
  const begun = text.trimStart();
  return begun.startsWith(sent) ? begun.slice(sent.length).trimStart() : text;
}
