import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { KeptLog, StandingClock } from "./sqlite-place.ts";
import type { StoreCall } from "./store-process.ts";

/** A process that opens the store named on its command line, and executes its parent's requests. */
const store = await openSqliteStore({ file: process.argv[2]!, clock: new StandingClock(), log: new KeptLog() }).catch(
  (error: Error) => {
    process.send!({ failed: error.message });
    process.disconnect();
  },
);

if (store) {
  process.on("message", (call: StoreCall) => void answer(store, call));
  process.on("disconnect", () => process.exit());
  process.send!({ opened: true });
}

async function answer(of: Store, { id, method, given }: StoreCall): Promise<void> {
  try {
    const call = of[method] as (...given: unknown[]) => unknown;
    process.send!({ id, result: await call.apply(of, given) });
  } catch (error) {
    process.send!({ id, code: (error as { code?: string }).code ?? String(error) });
  }
}
