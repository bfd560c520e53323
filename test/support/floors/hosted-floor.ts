import { HostStage } from "./host-stage.ts";

/** A floor on which `music` plays; its first commit is behind it. */
export async function openFloor(): Promise<HostStage> {
  const stage = await HostStage.open();
  await stage.create("music", "music");
  return stage;
}
