import { parentPort, workerData } from "node:worker_threads";
import { readEntries } from "./webhooks-file.ts";

const { text, path } = workerData as { text: string; path: string };
parentPort?.postMessage(await readEntries(text, path));
