import { useLayoutEffect, useRef } from "react";

/** A reader closer to the end than this, in px, stays at the end. */
const AT_END_PX = 48;

/**
 * Keeps a box at the end of its content until its reader scrolls back. The content grows with new messages, and when a
 * message comes into view: only then the browser knows its height. The box shrinks for a question beneath it.
 */
export function useEnd() {
  const box = useRef<HTMLElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const seen = useRef({ isAtEnd: true, top: 0 });
  useLayoutEffect(() => {
    const element = box.current!;
    const stay = () => {
      if (seen.current.isAtEnd) element.scrollTop = element.scrollHeight;
    };
    const watching = new ResizeObserver(stay);
    watching.observe(element);
    watching.observe(content.current!);
    stay();
    return () => watching.disconnect();
  }, []);
  const onScroll = () => {
    const { scrollTop: top, scrollHeight, clientHeight } = box.current!;
    const isNear = scrollHeight - top - clientHeight < AT_END_PX;
    // What grew since the page scrolled is not a reader who scrolled back.
    seen.current = { isAtEnd: isNear || (seen.current.isAtEnd && top >= seen.current.top), top };
  };
  return { box, content, onScroll };
}
