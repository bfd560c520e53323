export interface ByteLimits {
  /** The limit for all addresses together, in bytes. */
  node: number;
  address: number;
  /** Bytes of each loan that are not counted, so that small requests pass while the budget is used up. */
  free: number;
}

/** The bytes that one request or answer keeps in memory. */
export interface Loan {
  /** @returns false, without taking anything, if the budget has no room for this many bytes in total */
  growTo(bytes: number): boolean;
  /** Return what exceeds this many bytes in total. */
  keep(bytes: number): void;
  /** Return all bytes to the budget. Further calls do nothing. */
  close(): void;
}

/** Limits the bytes that clients make the node keep, in total and for each address. */
export class ByteBudget {
  readonly #limits: ByteLimits;
  readonly #byAddress = new Map<string, number>();
  #used = 0;

  constructor(limits: ByteLimits) {
    this.#limits = limits;
  }

  /** @param addressOf called at most once, and only for a loan that outgrows its free part */
  open(addressOf: () => string): Loan {
    let address: string | undefined;
    let counted = 0;
    return {
      growTo: (bytes) => {
        const more = bytes - this.#limits.free - counted;
        if (more <= 0) return true;
        address ??= addressOf();
        if (!this.#reserve(address, more)) return false;
        counted += more;
        return true;
      },
      keep: (bytes) => {
        const less = counted - Math.max(0, bytes - this.#limits.free);
        if (address === undefined || less <= 0) return;
        this.#give(address, less);
        counted -= less;
      },
      close: () => {
        if (address !== undefined) this.#give(address, counted);
        counted = 0;
      },
    };
  }

  #reserve(address: string, bytes: number): boolean {
    const ofAddress = (this.#byAddress.get(address) ?? 0) + bytes;
    if (ofAddress > this.#limits.address || this.#used + bytes > this.#limits.node) return false;
    this.#byAddress.set(address, ofAddress);
    this.#used += bytes;
    return true;
  }

  #give(address: string, bytes: number): void {
    const left = (this.#byAddress.get(address) ?? 0) - bytes;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
    this.#used -= bytes;
  }
}
