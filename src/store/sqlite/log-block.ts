/** A block is 32 numbers of a floor's log: `floor_seq >> 5` on its floor, `event_key >> 5` in the database. */
export const BLOCK_BITS = 5;

/** SQL: whether an event's key is in a block. */
export const isInBlock = (key: string, block: string): string =>
  `${key} BETWEEN ${block} << ${BLOCK_BITS} AND ${block} << ${BLOCK_BITS} | ${2 ** BLOCK_BITS - 1}`;
