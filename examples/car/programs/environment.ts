import { type Client, createClient } from "../../../src/client/interlock-client.ts";

/** The environment of every program of the car. */
export interface Environment {
  client: Client;
  /** The user on whose floor the program's session competes. */
  userId: string;
  /** The folder for the program's files. */
  folder: string;
}

/** @throws Error that names the missing variable */
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
