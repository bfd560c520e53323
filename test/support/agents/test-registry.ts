import { createRegistry, type Registry, type RegistryOptions } from "../../../src/agents/registry.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";

/** A registry by the time of this machine, unless a test moves its own clock. */
export const testRegistry = (options: Omit<RegistryOptions, "clock"> & Partial<RegistryOptions>): Registry =>
  createRegistry({ clock: new SystemClock(), ...options });
