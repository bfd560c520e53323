import { type RefObject, useEffect, useRef } from "react";

/**
 * A canvas that is painted when its size changes, and when one of `inputs` does.
 * @param inputs all that changes the picture; always equally many
 */
export function useCanvas(
  paint: (canvas: HTMLCanvasElement) => void,
  inputs: readonly unknown[],
): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const watching = new ResizeObserver(() => paint(element));
    watching.observe(element);
    // At once, not by the observer only: the view's boundary catches what fails in an effect.
    paint(element);
    return () => watching.disconnect();
    // biome-ignore lint/correctness/useExhaustiveDependencies: the caller names what changes the picture.
  }, inputs);
  return canvas;
}

/** Empty a canvas and give it the pixels of its size in CSS. @returns the pen, where the browser has one */
export function blankPen(canvas: HTMLCanvasElement): CanvasRenderingContext2D | null {
  canvas.width = Math.max(1, canvas.clientWidth);
  canvas.height = Math.max(1, canvas.clientHeight);
  return canvas.getContext("2d");
}
