/** Loaded before a program (`--import`): its modules have the faults of `PLANTED_EDITS`. Nothing is written to disk. */
import { registerHooks } from "node:module";

const edits = JSON.parse(process.env["PLANTED_EDITS"] ?? "[]") as [file: string, text: string, instead: string][];

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    const own = edits.filter(([file]) => url.endsWith(`/src/${file}`));
    if (own.length === 0) return loaded;
    let source = String(loaded.source);
    for (const [file, text, instead] of own) {
      if (source.split(text).length !== 2) throw new Error(`${text} cannot be planted in ${file}`);
      source = source.replace(text, () => instead);
    }
    return { ...loaded, source };
  },
});
