import { readSettings, type Settings } from "../../../src/config/settings.ts";

type Env = Record<string, string>;

/** @throws Error with the faults */
export function settingsOf(env: Env, flags: string[] = []): Settings {
  const reading = readSettings(env, flags);
  if (!reading.ok) throw new Error(JSON.stringify(reading.faults));
  return reading.settings;
}

/** Each fault as `name: message`. */
export function settingFaultsOf(env: Env, flags: string[] = []): string[] {
  const reading = readSettings(env, flags);
  return reading.ok ? [] : reading.faults.map(({ name, message }) => `${name}: ${message}`);
}
