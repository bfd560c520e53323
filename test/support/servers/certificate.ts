import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

/** A certificate of this machine that is its own authority, as PEM. */
export interface Certificate {
  readonly key: string;
  readonly text: string;
  readonly keyFile: string;
  readonly file: string;
}

/** @param openssl the program */
export async function makeCertificate(openssl: string, folder: string, name = "server"): Promise<Certificate> {
  const [keyFile, file] = [join(folder, `${name}.key`), join(folder, `${name}.crt`)];
  const words = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=${name}`;
  const names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"];
  await promisify(execFile)(openssl, [...words.split(" "), ...names, "-keyout", keyFile, "-out", file]);
  return { key: await readFile(keyFile, "utf8"), text: await readFile(file, "utf8"), keyFile, file };
}
