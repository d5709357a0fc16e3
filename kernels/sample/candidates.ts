/**
 * The tokens that sampling can still choose, on the CPU.
 *
 * @module
 */

/**
 * A list of (token id, logit, weight), ranked by larger logit first, then by lower id. Its arrays are allocated once.
 */
export class Candidates {
  length = 0;
  readonly ids: Uint32Array;
  readonly values: Float32Array;
  readonly weights: Float64Array;

  constructor(capacity: number) {
    this.ids = new Uint32Array(capacity);
    this.values = new Float32Array(capacity);
    this.weights = new Float64Array(capacity);
  }

  /** Appends a token, whose weight is set later. */
  push(id: number, value: number): void {
    this.ids[this.length] = id;
    this.values[this.length] = value;
    this.length++;
  }

  /** Keeps the `count` highest-ranked tokens, in any order, by quickselect; weights move along. */
  keepLargest(count: number): void {
    if (count >= this.length) return;
    let low = 0;
    let high = this.length;
    while (high - low > 1) {
      const pivot = this.#partition(low, high);
      if (pivot === count) break;
      if (pivot > count) high = pivot;
      else low = pivot + 1;
    }
    this.length = count;
  }

  /**
   * Keeps the shortest prefix by rank whose weights sum to at least `mass`, but at least one token, by weighted
   * quickselect.
   */
  keepMass(mass: number): void {
    let low = 0;
    let high = this.length;
    let ahead = 0;
    while (low < high) {
      const pivot = this.#partition(low, high);
      let upToPivot = ahead;
      for (let i = low; i < pivot; i++) upToPivot += this.weights[i]!;
      if (upToPivot >= mass) {
        high = pivot;
      } else {
        ahead = upToPivot + this.weights[pivot]!;
        low = pivot + 1;
        if (ahead >= mass) break;
      }
    }
    this.length = Math.max(low, 1);
  }

  /** Sorts a short list by rank. */
  sort(): void {
    for (let end = 1; end < this.length; end++) {
      for (let i = end; i > 0 && this.#isAhead(i, i - 1); i--) this.#swap(i, i - 1);
    }
  }

  /** Moves a pivot to its rank within `[low, high)`, with higher-ranked tokens to its left, and returns its index. */
  #partition(low: number, high: number): number {
    const last = high - 1;
    const middle = (low + high) >>> 1;
    if (this.#isAhead(middle, low)) this.#swap(middle, low);
    if (this.#isAhead(last, low)) this.#swap(last, low);
    // The pivot is the median of the first, middle and last; it is parked at the last index.
    if (this.#isAhead(middle, last)) this.#swap(middle, last);
    let position = low;
    for (let i = low; i < last; i++) {
      if (this.#isAhead(i, last)) this.#swap(i, position++);
    }
    this.#swap(position, last);
    return position;
  }

  #isAhead(a: number, b: number): boolean {
    const difference = this.values[a]! - this.values[b]!;
    return difference > 0 || (difference === 0 && this.ids[a]! < this.ids[b]!);
  }

  #swap(a: number, b: number): void {
    const id = this.ids[a]!;
    const value = this.values[a]!;
    const weight = this.weights[a]!;
    this.ids[a] = this.ids[b]!;
    this.values[a] = this.values[b]!;
    this.weights[a] = this.weights[b]!;
    this.ids[b] = id;
    this.values[b] = value;
    this.weights[b] = weight;
  }
}
