// The entry of the package. It loads the rest once Node is known to be new enough: an older one ends at the first
// module that it lacks, without a sentence.
import { faultOfNode } from "./needed-node.js";

const fault = faultOfNode();
if (fault !== undefined) throw new Error(`interlock ${fault}`);
export const { AppError, CatalogError, createApp, readSettings, VERSION } = await import(
  new URL("../dist/index.js", import.meta.url).href
);
