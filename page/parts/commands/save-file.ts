/** Hands a file to the browser's downloads. Characters that no file name should have become hyphens. */
export function saveFile(content: Blob, name: string, extension: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = `interlock-${name.replace(/[^\p{L}\p{N}]+/gu, "-")}.${extension}`;
  link.click();
  URL.revokeObjectURL(link.href);
}
