import { parentPort, workerData } from "node:worker_threads";
import { examineCatalog } from "./catalog-file.ts";
import type { ExaminedText } from "./catalog-thread.ts";

const examined = examineCatalog(workerData as string);
const found: ExaminedText = examined.ok ? { ok: true, value: examined.value } : examined;
parentPort?.postMessage(found);
