import { type RefObject, useEffectEvent, useLayoutEffect } from "react";

/** Calls `onChange` with a scrolling element at first, and whenever it is scrolled or resized. */
export function useViewport(box: RefObject<HTMLElement | null>, onChange: (element: HTMLElement) => void): void {
  const look = useEffectEvent(onChange);
  useLayoutEffect(() => {
    const element = box.current!;
    const onLook = () => look(element);
    const watching = new ResizeObserver(onLook);
    watching.observe(element);
    element.addEventListener("scroll", onLook, { passive: true });
    return () => {
      watching.disconnect();
      element.removeEventListener("scroll", onLook);
    };
  }, [box]);
}
