/**
 * Tracks which sequences hold which slots for recurrent states, and which slots keep snapshots.
 *
 * @module
 */
import type { StepBatch } from "../decoder/decoder.ts";

type StateCopy = NonNullable<StepBatch["stateCopies"]>[number];

/**
 * Hands out slots for states. A slot that no sequence holds may keep a snapshot: the state after the last token of a
 * findable block. A cached prefix is usable as far as there are blocks and a snapshot after the last of them. When no
 * slot is free, the least recently used snapshot is replaced.
 *
 * Copies between slots are collected. The decoder makes them, in order, before the next step.
 */
export class StateSlots {
  readonly #free: number[];
  /** Slots of snapshots by block, least recently used first. */
  readonly #snapshots = new Map<number, number>();
  #copies: StateCopy[] = [];
  #taken: readonly StateCopy[] = [];

  constructor(numSlots: number) {
    this.#free = Array.from({ length: numSlots }, (_, i) => numSlots - 1 - i);
  }

  /** Takes a slot with arbitrary content; `undefined` when sequences hold all of them. */
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

  /** Whether there is a snapshot after a block. */
  has(blockId: number): boolean {
    return this.#snapshots.has(blockId);
  }

  /** Makes a slot the snapshot after a block. If there is one already, the slot becomes free. */
  keep(blockId: number, slot: number): void {
    if (this.has(blockId)) this.release(slot);
    else this.#snapshots.set(blockId, slot);
  }

  /** Copies a slot to a new snapshot after a block, unless there is one already, or no slot for it. */
  save(blockId: number, from: number): void {
    if (this.has(blockId)) return;
    const to = this.take();
    if (to === undefined) return;
    this.#copies.push({ from, to });
    this.#snapshots.set(blockId, to);
  }

  /** Takes a slot, as {@linkcode take} does, with a copy of the snapshot after a block. */
  takeCopy(blockId: number): number | undefined {
    const from = this.#snapshots.get(blockId)!;
    // Marks the snapshot as the most recently used.
    this.#snapshots.delete(blockId);
    this.#snapshots.set(blockId, from);
    const to = this.take();
    // If the snapshot is the only slot left, it is taken itself, without a copy.
    if (to !== undefined && to !== from) this.#copies.push({ from, to });
    return to;
  }

  /** Takes the slot of the snapshot after a block, which is then no longer a snapshot. */
  takeSnapshot(blockId: number): number {
    const slot = this.#snapshots.get(blockId)!;
    this.#snapshots.delete(blockId);
    return slot;
  }

  /** Frees the snapshot after a block whose content is no longer cached, if there is one. */
  forget(blockId: number): void {
    const slot = this.#snapshots.get(blockId);
    if (slot === undefined) return;
    this.#snapshots.delete(blockId);
    this.release(slot);
  }

  /** Takes the copies that the next step must make first. */
  takeCopies(): readonly StateCopy[] {
    this.#taken = this.#copies;
    this.#copies = [];
    return this.#taken;
  }

  /** Forgets snapshots that the last step with copies was to make, because it failed, perhaps before it made them. */
  abandonCopies(): void {
    const targets = new Set(this.#taken.map(({ to }) => to));
    for (const [blockId, slot] of this.#snapshots) if (targets.has(slot)) this.forget(blockId);
    this.#taken = [];
  }
}
