/**
 * Who holds which slot for what sequences keep beside keys and values, and which snapshots are kept in the others.
 *
 * @module
 */
import type { StepBatch } from "../decoder/decoder.ts";

type StateCopy = NonNullable<StepBatch["stateCopies"]>[number];

/**
 * Hands out slots of states. A slot that no sequence holds may keep a snapshot: the state behind the last token of a
 * block that stays findable. A prefix is found as far as there are blocks and a snapshot behind the last of them. Where
 * no slot is free, the snapshot that was not used for longest gives its own.
 *
 * Copies of slots are collected for the next step, before which the decoder makes them in their order.
 */
export class StateSlots {
  readonly #free: number[];
  /** Slots of snapshots by block, the longest unused first. */
  readonly #snapshots = new Map<number, number>();
  #copies: StateCopy[] = [];
  #taken: readonly StateCopy[] = [];

  constructor(numSlots: number) {
    this.#free = Array.from({ length: numSlots }, (_, i) => numSlots - 1 - i);
  }

  /** Slots that hold nothing, and snapshots. */
  get stats(): { readonly numFree: number; readonly numSnapshots: number } {
    return { numFree: this.#free.length, numSnapshots: this.#snapshots.size };
  }

  /** A slot with any content; `undefined` when sequences hold them all. */
  take(): number | undefined {
    const slot = this.#free.pop();
    if (slot !== undefined) return slot;
    const [oldest] = this.#snapshots.keys();
    if (oldest === undefined) return undefined;
    const own = this.#snapshots.get(oldest);
    this.#snapshots.delete(oldest);
    return own;
  }

  release(slot: number): void {
    this.#free.push(slot);
  }

  /** Whether there is a snapshot behind a block. */
  has(blockId: number): boolean {
    return this.#snapshots.has(blockId);
  }

  /** Makes a slot the snapshot behind a block; where there is one already, the slot is free. */
  keep(blockId: number, slot: number): void {
    if (this.has(blockId)) this.release(slot);
    else this.#snapshots.set(blockId, slot);
  }

  /** Copies a slot to be the snapshot behind a block, unless there is one or no slot for it. */
  save(blockId: number, from: number): void {
    if (this.has(blockId)) return;
    const to = this.take();
    if (to === undefined) return;
    this.#copies.push({ from, to });
    this.#snapshots.set(blockId, to);
  }

  /** A slot with a copy of the snapshot behind a block, as {@linkcode take} gives it. */
  takeCopy(blockId: number): number | undefined {
    const from = this.#snapshots.get(blockId)!;
    // It was used last.
    this.#snapshots.delete(blockId);
    this.#snapshots.set(blockId, from);
    const to = this.take();
    // Where it was the only one, it is taken itself.
    if (to !== undefined && to !== from) this.#copies.push({ from, to });
    return to;
  }

  /** The slot of the snapshot behind a block, which is no snapshot any longer. */
  takeSnapshot(blockId: number): number {
    const slot = this.#snapshots.get(blockId)!;
    this.#snapshots.delete(blockId);
    return slot;
  }

  /** Frees the snapshot behind a block whose content is known no longer, if there is one. */
  forget(blockId: number): void {
    const slot = this.#snapshots.get(blockId);
    if (slot === undefined) return;
    this.#snapshots.delete(blockId);
    this.release(slot);
  }

  /** The copies that the next step makes first. */
  takeCopies(): readonly StateCopy[] {
    this.#taken = this.#copies;
    this.#copies = [];
    return this.#taken;
  }

  /** Forgets snapshots that the step which took copies last was to make: it failed, perhaps before that. */
  abandonCopies(): void {
    const targets = new Set(this.#taken.map(({ to }) => to));
    for (const [blockId, slot] of this.#snapshots) if (targets.has(slot)) this.forget(blockId);
    this.#taken = [];
  }
}
