/** Tracks which encoder inputs are cached in which slots, and evicts the least recently used. Pure. */
export class EncoderSlots {
  /**
   * The input of each slot. The references are weak, since an input without other references cannot be needed again.
   */
  readonly #inputs: (WeakRef<object> | undefined)[];
  readonly #lastUse: number[];
  #clock = 0;

  constructor(numSlots: number) {
    this.#inputs = new Array(numSlots).fill(undefined);
    this.#lastUse = new Array(numSlots).fill(0);
  }

  /**
   * Finds a slot for each input of a step.
   *
   * @param inputs at most as many different ones as there are slots.
   * @returns the slot of each input, and the inputs that are not cached yet: the caller computes their keys and values
   * and then calls {@linkcode keep}.
   */
  assign(inputs: readonly object[]): { slots: number[]; missing: Map<object, number> } {
    const now = ++this.#clock;
    const slotByInput = new Map<object, number>();
    for (const input of inputs) {
      const slot = this.#inputs.findIndex((kept) => kept?.deref() === input);
      if (slot < 0) continue;
      slotByInput.set(input, slot);
      this.#lastUse[slot] = now;
    }
    const missing = new Map<object, number>();
    for (const input of inputs) {
      if (slotByInput.has(input)) continue;
      const slot = this.#takeOldest(now);
      slotByInput.set(input, slot);
      missing.set(input, slot);
    }
    return { slots: inputs.map((input) => slotByInput.get(input)!), missing };
  }

  /** Records that a slot holds an input's keys and values. */
  keep(input: object, slot: number): void {
    this.#inputs[slot] = new WeakRef(input);
  }

  /**
   * Releases an input that no step will need again. Its slot, whose memory is already in use, is the next to be
   * assigned.
   */
  release(input: object): void {
    const slot = this.#inputs.findIndex((kept) => kept?.deref() === input);
    if (slot >= 0) this.#inputs[slot] = undefined;
  }

  #takeOldest(now: number): number {
    let oldest = 0;
    const getAge = (slot: number) =>
      this.#inputs[slot]?.deref() === undefined && this.#lastUse[slot] !== now
        ? -1
        : this.#lastUse[slot]!;
    for (let slot = 1; slot < this.#inputs.length; slot++) {
      if (getAge(slot) < getAge(oldest)) oldest = slot;
    }
    if (this.#lastUse[oldest] === now) {
      throw new RangeError(`A step has more encoder inputs than the ${this.#inputs.length} slots.`);
    }
    this.#inputs[oldest] = undefined;
    this.#lastUse[oldest] = now;
    return oldest;
  }
}
