import { HostStage } from "./host-stage.ts";

/** A floor on which `music` plays, after its first commit. */
export async function openFloor(): Promise<HostStage> {
  const stage = await HostStage.open();
  await stage.create("music", "music");
  return stage;
}
