/** Entities of Home Assistant for floors and agents, by its MQTT discovery. */

import type { AgentView } from "../../client/interlock-client.ts";
import { levelsOfFloor } from "./topics.ts";

/** Home Assistant's own prefix, until it is told another one. */
export const DISCOVERY = "homeassistant";

export interface DiscoveredFloor {
  readonly userId: string;
  readonly zone: string | undefined;
}

export interface DiscoveryInput {
  /** The bridge's name. */
  readonly name: string;
  readonly prefix: string;
  readonly floors: readonly DiscoveredFloor[];
  readonly agents: readonly Pick<AgentView, "id" | "name">[];
}

/** The node of the bridge in the topics of discovery: letters, digits, `_` and `-` only. */
const nodeOf = (name: string): string => `interlock_${name}`;

/** The topics in which entities of this bridge are, of this start or an earlier one. */
export const discoveryFilter = (name: string): string => `${DISCOVERY}/+/${nodeOf(name)}/+/config`;

/** The retained topics of Home Assistant's entities: who has each floor, and whether each agent is heard. */
export function discoveryTopics({ name, prefix, floors, agents }: DiscoveryInput): ReadonlyMap<string, string> {
  const topics = new Map<string, string>();
  const bridge = `${prefix}/bridge/${name}`;
  for (const { userId, zone } of floors) {
    const levels = levelsOfFloor(userId, zone);
    const base = `${prefix}/floor/${levels}`;
    const title = zone === undefined ? userId : `${userId}, ${zone}`;
    const device = {
      identifiers: [`${nodeOf(name)}_${idOf(levels)}`],
      name: `Interlock ${title}`,
      manufacturer: "Interlock",
    };
    const add = (component: string, what: string, entity: object) => {
      const id = `${idOf(levels)}_${what}`;
      const common = { unique_id: `${nodeOf(name)}_${id}`, device, availability_topic: bridge };
      topics.set(`${DISCOVERY}/${component}/${nodeOf(name)}/${id}/config`, JSON.stringify({ ...common, ...entity }));
    };
    add("sensor", "holder", {
      name: "Has the floor",
      state_topic: `${base}/holder`,
      value_template: "{{ value_json.agent or 'nobody' }}",
      json_attributes_topic: `${base}/holder`,
      icon: "mdi:account-voice",
    });
    for (const agent of agents) {
      add("binary_sensor", `heard_${agent.id}`, {
        name: `${agent.name} is heard`,
        state_topic: `${base}/heard`,
        value_template: `{{ 'ON' if '${agent.id}' in value_json.heard | map(attribute='agent') else 'OFF' }}`,
        device_class: "sound",
      });
    }
  }
  return topics;
}

/** A floor's levels as an id, without two floors that have the same. */
const idOf = (levels: string): string =>
  [...Buffer.from(levels)]
    .map((byte) => {
      const sign = String.fromCharCode(byte);
      return /[A-Za-z0-9]/.test(sign) ? sign : sign === "/" ? "_" : `-${byte.toString(16).padStart(2, "0")}`;
    })
    .join("");
