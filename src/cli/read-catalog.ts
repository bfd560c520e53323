import type { Catalog } from "../config/catalog/catalog.ts";
import { describeRefusal, loadCatalog } from "../config/catalog/catalog-file.ts";

/**
 * The catalogue of a file; or the exit code of the command, once its faults are printed: 1, or 2 if it cannot be read.
 */
export async function catalogOrCode(path: string, print: (line: string) => void): Promise<Catalog | number> {
  const reading = await loadCatalog(path);
  if (reading.ok) return reading.catalog;
  for (const line of describeRefusal(path, reading)) print(line);
  return reading.unreadable ? 2 : 1;
}
