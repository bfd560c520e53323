import { createClient } from "../../client/interlock-client.ts";
import { readYamlFile } from "../../config/yaml-file.ts";
import { type BridgeRun, keptPathOf, runBridge } from "../playing/run-bridge.ts";
import { bridgeBroker, linkTo } from "./bridge.ts";
import { expiringWrites } from "./expiring-writes.ts";
import { KeptDevices } from "./kept-devices.ts";
import { MqttFile } from "./mqtt-file.ts";

/** `interlock mqtt`. @returns the exit code */
export async function mqtt(path: string, run: BridgeRun): Promise<number> {
  return runBridge(run, await readYamlFile(path, MqttFile), async ({ options, ...parts }) => {
    const { file, lanes } = parts;
    lanes.say(`${path}: the bridge ${file.name} of ${file.broker.url} and ${run.url}`);
    const end = await bridgeBroker({
      ...parts,
      client: createClient(options),
      writesUntil: (expiry) => expiringWrites(options, expiry),
      kept: new KeptDevices(keptPathOf(`mqtt-${file.name}.json`)),
      openLink: linkTo(file, path),
    });
    if (end === "taken over") throw new Error(`another bridge with the name ${file.name} has taken over`);
  });
}
