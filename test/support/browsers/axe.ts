import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "playwright-core";

/**
 * What axe finds, each with the first of its elements. In legacy mode it does not open another window for its results;
 * frames of other origins would be left out, and the page has none.
 */
export async function axeFaults(page: Page): Promise<string[]> {
  const axe = new AxeBuilder({ page }).options({ resultTypes: ["violations"] }).setLegacyMode();
  const { violations } = await axe.analyze();
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
}
