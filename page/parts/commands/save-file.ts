/** Saves a file as a browser download. Characters that are not allowed in file names become hyphens. */
export function saveFile(content: Blob, name: string, extension: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = `interlock-${name.replace(/[^\p{L}\p{N}]+/gu, "-")}.${extension}`;
  link.click();
  URL.revokeObjectURL(link.href);
}
