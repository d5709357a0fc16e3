/**
 * A least-recently-used cache with a budget in bytes.
 *
 * @module
 */

/** Values by key. The one added last is kept whatever its size. */
export class ByteBudgetCache<Value> {
  readonly #maxBytes: number;
  readonly #drop: (value: Value) => void;
  /** The least recently used first. */
  readonly #entries = new Map<string, { readonly value: Value; readonly numBytes: number }>();
  #numBytes = 0;

  /** @param drop called with each evicted value. */
  constructor(maxBytes: number, drop: (value: Value) => void = () => {}) {
    this.#maxBytes = maxBytes;
    this.#drop = drop;
  }

  get numBytes(): number {
    return this.#numBytes;
  }

  /** The value of a key, which counts as a use of it. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Adds or replaces a value, evicting the least recently used. */
  set(key: string, value: Value, numBytes: number): void {
    this.delete(key);
    this.#entries.set(key, { value, numBytes });
    this.#numBytes += numBytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#numBytes <= this.#maxBytes || oldest === key) break;
      this.delete(oldest);
    }
  }

  /** Drops the value of a key, if there is one. */
  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#numBytes -= entry.numBytes;
    this.#drop(entry.value);
  }

  clear(): void {
    for (const key of [...this.#entries.keys()]) this.delete(key);
  }
}
