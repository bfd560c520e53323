/**
 * 32-bit FNV-1a (Fowler, Noll, Vo) over a text's UTF-16 units. Signed. Similar texts share low bits: mix the result.
 */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash;
}
