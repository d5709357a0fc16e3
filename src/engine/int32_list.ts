/** A list of 32-bit integers that grows by doubling, so that appending seldom allocates. */
export class Int32List {
  #values: Int32Array;
  #length: number;

  /** Creates a list with a copy of `values`. */
  constructor(values: Int32Array = new Int32Array(0)) {
    this.#length = values.length;
    this.#values = new Int32Array(Math.max(8, values.length));
    this.#values.set(values);
  }

  get length(): number {
    return this.#length;
  }

  /** Returns a value. @throws {RangeError} when `index` is outside the list. */
  at(index: number): number {
    const value = index < this.#length ? this.#values[index] : undefined;
    if (value === undefined) throw new RangeError(this.#outside(index));
    return value;
  }

  /** Replaces a value. @throws {RangeError} when `index` is outside the list. */
  set(index: number, value: number): void {
    if (!(index >= 0 && index < this.#length)) throw new RangeError(this.#outside(index));
    this.#values[index] = value;
  }

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const grown = new Int32Array(this.#length * 2);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.#length++] = value;
  }

  /** Drops all values after the first `length`. */
  truncate(length: number): void {
    this.#length = Math.min(this.#length, length);
  }

  clear(): void {
    this.#length = 0;
  }

  /** The values from `start` to `end`, not copied: valid until the list grows. */
  view(start = 0, end: number = this.#length): Int32Array {
    return this.#values.subarray(start, Math.min(end, this.#length));
  }

  #outside(index: number): string {
    return `Index ${index} is outside a list of ${this.#length} values.`;
  }
}

/** Copies an array to another length, filled up with `filler`. */
export function resizeArray(
  values: Int32Array,
  length: number,
  filler = 0,
): Int32Array<ArrayBuffer> {
  const copy = new Int32Array(length).fill(filler);
  copy.set(values.subarray(0, length));
  return copy;
}
