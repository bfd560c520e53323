/**
 * What a saved log of a floor begins with; it distinguishes the file from other JSON. The page writes and opens them.
 */
export const SAVED_LOG = { format: "interlock-floor-log", version: 1 } as const;
