/**
 * The colours of the page's tokens for a canvas, which cannot evaluate CSS functions: they are computed on an element.
 */
export function colourReader(element: HTMLElement): (token: string) => string {
  const style = getComputedStyle(element);
  const known = new Map<string, string>();
  return (token) => {
    let colour = known.get(token);
    if (colour === undefined) {
      element.style.color = `var(--${token})`;
      colour = style.color;
      element.style.color = "";
      known.set(token, colour);
    }
    return colour;
  };
}
