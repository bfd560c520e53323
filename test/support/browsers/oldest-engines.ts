/**
 * What an engine may have that one of the oldest lacks on which the client and the page run: Chrome 116, Firefox 125,
 * Safari 17.4, Node 20.3 (docs/use/client.md).
 */
const NEWER: Readonly<Record<string, readonly string[]>> = {
  globalThis: ["Iterator", "requestIdleCallback", "scheduler", "Float16Array", "URLPattern"],
  Promise: ["withResolvers", "try"],
  Array: ["fromAsync"],
  Object: ["groupBy"],
  Map: ["groupBy"],
  URL: ["parse", "canParse"],
  RegExp: ["escape"],
  Error: ["isError"],
  Math: ["sumPrecise", "f16round"],
  Intl: ["DurationFormat"],
  Uint8Array: ["fromBase64", "fromHex"],
  "Map.prototype": ["getOrInsert", "getOrInsertComputed"],
  "Set.prototype": [
    ...["union", "intersection", "difference", "symmetricDifference"],
    ...["isSubsetOf", "isSupersetOf", "isDisjointFrom"],
  ],
  "Uint8Array.prototype": ["toBase64", "toHex", "setFromBase64", "setFromHex"],
  "ArrayBuffer.prototype": ["transfer", "transferToFixedLength"],
  "ReadableStream.prototype": ["values", "Symbol.asyncIterator"],
  "Response.prototype": ["bytes"],
  "Request.prototype": ["bytes"],
  "Blob.prototype": ["bytes"],
  // The iterator of an array has them from its prototype's prototype.
  "Object.getPrototypeOf(Object.getPrototypeOf([].values()))": [
    ...["drop", "every", "filter", "find", "flatMap", "forEach", "map", "reduce", "some", "take", "toArray"],
  ],
  "Document.prototype": ["startViewTransition", "caretPositionFromPoint"],
  "Element.prototype": ["moveBefore", "getHTML", "setHTMLUnsafe", "currentCSSZoom"],
};

/** A script that makes a page of a new browser one of the oldest. It runs before the page's own scripts. */
export const AS_OLDEST_BROWSER = Object.entries(NEWER)
  .flatMap(([owner, names]) =>
    names.map((name) => {
      const key = name.startsWith("Symbol.") ? name : JSON.stringify(name);
      return `if (!delete ${owner}[${key}]) throw new Error(${JSON.stringify(`${owner} keeps ${name}`)});`;
    }),
  )
  .join("\n");
