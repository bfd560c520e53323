import { expect, test } from "vitest";
import { isConnectionDoubtful, plainError, reasonOf, serverFaultOf } from "../../../src/store/postgres/sql-state.ts";

const answer = (code: string) => Object.assign(new Error("told by the server"), { code, severity: "ERROR" });
const network = (code: string) => Object.assign(new Error(`connect ${code}`), { code });

test.each([
  ["23505", "unique_violation", "taken"],
  ["IL001", "words wanted, by Interlock", "wordless"],
  ["P0002", "no_data_found", "data"],
  ["22021", "character_not_in_repertoire", "data"],
  ["23502", "not_null_violation", "data"],
  ["40P01", "deadlock_detected", "engine"],
  ["40001", "serialization_failure", "engine"],
  ["55P03", "lock_not_available", "engine"],
  ["57014", "query_canceled", "engine"],
  ["53300", "too_many_connections", "engine"],
])("SQLSTATE %s (%s) is a fault of kind %s, and leaves the connection usable", (code, _, fault) => {
  expect([serverFaultOf(answer(code)), isConnectionDoubtful(answer(code))]).toEqual([fault, false]);
});

test.each([
  ["25006", "read_only_sql_transaction", "engine"],
  ["57P01", "admin_shutdown", "engine"],
  ["57P03", "cannot_connect_now", "engine"],
  ["08006", "connection_failure", "engine"],
  ["58030", "io_error", "engine"],
  ["XX001", "data_corrupted", "engine"],
  ["0A000", "feature_not_supported", "engine"],
  ["26000", "invalid_sql_statement_name", "engine"],
  ["42P01", "undefined_table", "engine"],
  ["42883", "undefined_function", "engine"],
  ["42501", "insufficient_privilege", "engine"],
])("SQLSTATE %s (%s) is a fault of kind %s, and makes the connection doubtful", (code, _, fault) => {
  expect([serverFaultOf(answer(code)), isConnectionDoubtful(answer(code))]).toEqual([fault, true]);
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
