import type { FastifyInstance } from "fastify";

interface KnownPath {
  /** Undefined marks a parameter. */
  segments: (string | undefined)[];
  methods: Set<string>;
}

/** The methods of each path, for requests without a route. */
export class KnownPaths {
  readonly #byPattern = new Map<string, KnownPath>();

  /** Register every route that is added to this app from now on. */
  watch(app: FastifyInstance): void {
    app.addHook("onRoute", ({ url, method }) => {
      // The wildcard for preflights says nothing about a path.
      if (!url.startsWith("/")) return;
      const known = this.#byPattern.get(url) ?? { segments: toPattern(url), methods: new Set() };
      for (const each of [method].flat()) known.methods.add(each);
      this.#byPattern.set(url, known);
    });
  }

  /** @returns the methods of the path, sorted; empty if no route has it */
  methodsOf(url: string): string[] {
    const requested = url.split("?", 1)[0]!.split("/");
    const methods = [...this.#byPattern.values()]
      .filter(({ segments }) => fits(segments, requested))
      .flatMap((known) => [...known.methods]);
    return [...new Set(methods)].sort();
  }
}

const toPattern = (url: string) => url.split("/").map((segment) => (segment.startsWith(":") ? undefined : segment));

function fits(segments: KnownPath["segments"], requested: string[]): boolean {
  const isLong = segments.at(-1) === "*" ? requested.length >= segments.length : requested.length === segments.length;
  return (
    isLong &&
    segments.every(
      (segment, index) =>
        segment === "*" || (segment === undefined ? requested[index] !== "" : segment === requested[index]),
    )
  );
}
