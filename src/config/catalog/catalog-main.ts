import { parentPort, workerData } from "node:worker_threads";
import { examineCatalog } from "./catalog-file.ts";

parentPort?.postMessage(examineCatalog(workerData as string));
