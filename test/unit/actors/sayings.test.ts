import { expect, it } from "vitest";
import { saying, wouldNeed } from "../../../src/actors/floor/sayings.ts";
import { OUTCOMES, REASONS } from "../../../src/protocol/decision.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { catalogOf } from "../../support/catalogs/catalog-faults.ts";

const { agents } = catalogOf(`agents:
  - { name: phone, label: 电话 }
  - { name: music, label: 音乐 }
`);
const [phone, music] = ["phone", "music"] as AgentId[];

it("every default sentence is Chinese for a Chinese session, and English for all others", () => {
  for (const reason of REASONS) {
    for (const outcome of OUTCOMES) {
      for (const isHolderDucked of [false, true]) {
        const spoken = { outcome, reason, challengerId: music!, holderId: phone!, isHolderDucked };
        const [chinese, english] = ["zh-CN", "de"].map((locale) => saying({ ...spoken, locale }, agents));
        expect(chinese, reason).toMatch(/^[\p{scx=Han}；，。]+$/u);
        expect(english, reason).toMatch(/ [a-z][^；，。]*\.$/);
      }
    }
  }
});

it("what a challenger would need is said in its language", () => {
  const holder = { agentId: phone!, priority: 90, interruptible: false };
  expect(wouldNeed("lower_priority", { agentId: music!, locale: "zh" }, holder)).toBe(
    "priority > 90 且 priority ≥ phone 的 preemption_threshold（未设置）",
  );
  expect(wouldNeed("lower_priority", { agentId: music! }, holder)).toBe(
    "priority > 90 and priority ≥ phone's preemption_threshold (none is set)",
  );
});
