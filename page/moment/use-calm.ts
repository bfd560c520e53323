import { startTransition, useEffect, useEffectEvent, useState } from "react";

/** Something that changes, such as a live view or a log. `view` is replaced at each change. */
interface Source<T> {
  readonly view: T;
  readonly subscribe: (watcher: () => void) => () => void;
}

/**
 * The view of a source; renders again when it changes. Unlike with `useSyncExternalStore`, a press or a movement of the
 * moment need not wait for that rendering.
 * @param isEmpty whether there is nothing to show yet: what comes then is rendered at once
 */
export function useCalm<T>(source: Source<T>, isEmpty: (view: T) => boolean): T {
  const [known, setKnown] = useState(() => ({ source, view: source.view }));
  const isWaiting = useEffectEvent(() => known.source !== source || isEmpty(known.view));
  useEffect(() => {
    const look = () => {
      const { view } = source;
      setKnown((known) => (known.source === source && known.view === view ? known : { source, view }));
    };
    const leave = source.subscribe(() => (isWaiting() ? look() : startTransition(look)));
    // It may have changed since it was rendered.
    look();
    return leave;
  }, [source]);
  return known.source === source ? known.view : source.view;
}
