import { expect, test } from "vitest";
import { isConnectionDoubtful, plainError, reasonOf, serverFaultOf } from "../../../src/store/postgres/sql-state.ts";

const answer = (code: string) => Object.assign(new Error("told by the server"), { code, severity: "ERROR" });
const network = (code: string) => Object.assign(new Error(`connect ${code}`), { code });

test.each([
  ["23505", "unique_violation", "taken", false],
  ["IL001", "words wanted, by Interlock", "wordless", false],
  ["P0002", "no_data_found", "data", false],
  ["22021", "character_not_in_repertoire", "data", false],
  ["23502", "not_null_violation", "data", false],
  ["40P01", "deadlock_detected", "engine", false],
  ["40001", "serialization_failure", "engine", false],
  ["55P03", "lock_not_available", "engine", false],
  ["57014", "query_canceled", "engine", false],
  ["53300", "too_many_connections", "engine", false],
  ["25006", "read_only_sql_transaction", "engine", true],
  ["57P01", "admin_shutdown", "engine", true],
  ["57P03", "cannot_connect_now", "engine", true],
  ["08006", "connection_failure", "engine", true],
  ["58030", "io_error", "engine", true],
  ["XX001", "data_corrupted", "engine", true],
  ["0A000", "feature_not_supported", "engine", true],
  ["26000", "invalid_sql_statement_name", "engine", true],
  ["42P01", "undefined_table", "engine", true],
  ["42883", "undefined_function", "engine", true],
  ["42501", "insufficient_privilege", "engine", true],
])("SQLSTATE %s (%s) is a fault of kind %s, and makes the connection doubtful: %s", (code, _, fault, isDoubtful) => {
  expect([serverFaultOf(answer(code)), isConnectionDoubtful(answer(code))]).toEqual([fault, isDoubtful]);
});

test("errors of the network and the driver are engine errors, even if they look like a server's code", () => {
  for (const error of [network("ECONNRESET"), network("EPIPE"), network("23505"), new Error("Query read timeout")]) {
    expect([serverFaultOf(error), isConnectionDoubtful(error)]).toEqual(["engine", true]);
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
