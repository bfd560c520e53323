import { expect, test } from "vitest";
import { dashboardQueries, panelsOfDashboard } from "../../support/documents/dashboard.ts";

test("every panel says what it shows, has a query, and overlaps no other", () => {
  expect(panelsOfDashboard.length).toBeGreaterThan(15);
  const places = new Set<string>();
  for (const { title, description, gridPos, targets } of panelsOfDashboard) {
    expect(description?.length, title).toBeGreaterThan(3);
    expect(targets?.length, title).toBeGreaterThan(0);
    for (let column = gridPos.x; column < gridPos.x + gridPos.w; column += 1) {
      for (let line = gridPos.y; line < gridPos.y + gridPos.h; line += 1) {
        expect(places.has(`${column} ${line}`), title).toBe(false);
        places.add(`${column} ${line}`);
      }
    }
  }
});

test("no query has a variable that nothing stands for", () => {
  expect(dashboardQueries.filter(({ expr }) => expr.includes("$"))).toEqual([]);
});
