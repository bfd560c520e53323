import { describe, expect, test } from "vitest";
import { faultOf, isConnectionDoubtful, plainError, reasonOf } from "../../../src/store/postgres/sql-state.ts";

const answer = (code: string) => Object.assign(new Error("told by the server"), { code, severity: "ERROR" });
const network = (code: string) => Object.assign(new Error(`connect ${code}`), { code });

describe("a fault of PostgreSQL", () => {
  test.each([
    ["23505", "taken", false],
    ["IL001", "wordless", false],
    ["P0002", "data", false],
    ["22021", "data", false],
    ["23502", "data", false],
    ["42P01", "data", false],
    ["40P01", "engine", false],
    ["40001", "engine", false],
    ["55P03", "engine", false],
    ["57014", "engine", false],
    ["53300", "engine", false],
    ["25006", "engine", true],
    ["57P01", "engine", true],
    ["57P03", "engine", true],
    ["08006", "engine", true],
    ["58030", "engine", true],
    ["XX001", "engine", true],
    ["0A000", "engine", true],
    ["26000", "engine", true],
  ])("SQLSTATE %s is a fault of kind %s, and makes the connection doubtful: %s", (code, fault, doubtful) => {
    expect([faultOf(answer(code)), isConnectionDoubtful(answer(code))]).toEqual([fault, doubtful]);
  });

  test("errors of the network and the driver are engine errors, even if they look like a server's code", () => {
    for (const error of [network("ECONNRESET"), network("EPIPE"), network("23505"), new Error("Query read timeout")]) {
      expect([faultOf(error), isConnectionDoubtful(error)]).toEqual(["engine", true]);
    }
  });

  test("an error of PostgreSQL is reported by its message and code, without the driver's details", () => {
    const error = Object.assign(answer("22P02"), { detail: "a secret", client: { password: "another" } });
    expect(Object.keys(plainError(error))).toEqual([]);
    expect(plainError(error).message).toBe("told by the server (22P02)");
    expect(reasonOf(network("ECONNREFUSED"))).toBe("connect ECONNREFUSED");
  });

  test("an error after trying several addresses has the reason of each", () => {
    const error = Object.assign(new AggregateError([network("ECONNREFUSED"), network("ETIMEDOUT")]), {
      code: "ECONNREFUSED",
    });
    expect(reasonOf(error)).toBe("connect ECONNREFUSED; connect ETIMEDOUT");
  });
});
