import { parentPort, workerData } from "node:worker_threads";
import { serveJobs } from "../rows/job-writer.ts";
import type { WriterSettings } from "./writer-job.ts";

if (parentPort) serveJobs(parentPort, workerData as WriterSettings);
