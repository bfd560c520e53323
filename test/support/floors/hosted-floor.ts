import { HostStage } from "./host-stage.ts";

/** A floor on which `music` plays, after its first commit. */
export async function openFloor(...given: Parameters<typeof HostStage.open>): Promise<HostStage> {
  const stage = await HostStage.open(...given);
  await stage.create("music", "music");
  return stage;
}
