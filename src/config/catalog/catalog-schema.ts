import { z } from "zod";
import { CatalogFile } from "./catalog.ts";
import { ToolEntry } from "./tool-entry.ts";

/**
 * The JSON Schema of the catalogue's file (draft 2020-12), with which editors complete and check it. It accepts each
 * valid catalogue. What relates several keys to each other only `readCatalog` checks.
 */
export function catalogSchema(): object {
  const schema = z.toJSONSchema(CatalogFile, {
    io: "input",
    override: ({ zodSchema, jsonSchema }) => {
      if (zodSchema !== ToolEntry) return;
      const withLimits = { ...jsonSchema };
      for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
      // A tool without limits is written as its name alone.
      jsonSchema.anyOf = [(withLimits.properties as Record<string, z.core.JSONSchema.BaseSchema>)["name"]!, withLimits];
    },
  });
  return { title: "Interlock catalogue", ...schema };
}
