import { type Client, createClient } from "../../../src/client/interlock-client.ts";

/** What every program of the car is given by the environment. */
export interface Environment {
  client: Client;
  /** Whose floor it takes part in. */
  userId: string;
  /** Where it may write its files. */
  folder: string;
}

/** @throws Error that names the variable that is missing */
export function readEnvironment(): Environment {
  return {
    client: createClient({ baseUrl: variable("INTERLOCK_URL") }),
    userId: variable("CAR_USER"),
    folder: variable("CAR_FOLDER"),
  };
}

function variable(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === "") throw new Error(`${name} is not set`);
  return value;
}
