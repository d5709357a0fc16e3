/**
 * Which rows of a step belong to which state, for the kernels of recurrences.
 *
 * @module
 */
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";

/** The sequences of a step, as far as states go. */
export interface StateStep {
  readonly sequences: { readonly length: number };
  /** i32 `[numTokens]`: position of each token in its own sequence. */
  readonly positions: Int32Array;
  /** i32 `[sequences + 1]`. */
  readonly queryStarts: Int32Array;
  /** i32 `[sequences]`: the slot of each sequence's states; absent: those of slots 0, 1, 2 … */
  readonly stateSlots?: Int32Array | undefined;
}

/** One sequence's rows and slot. */
export interface StateRange {
  readonly first: number;
  readonly end: number;
  readonly slot: number;
  /** Whether its state is all zeros before the first row. */
  readonly isFresh: boolean;
}

/** Words of a sequence: first row, end of its rows, slot, whether it is fresh. */
const WORDS = 4;

/** The ranges of a step's sequences. */
export function listRanges(step: StateStep): StateRange[] {
  return Array.from({ length: step.sequences.length }, (_, s) => {
    const [first, end] = [step.queryStarts[s]!, step.queryStarts[s + 1]!];
    const slot = step.stateSlots?.[s] ?? s;
    return { first, end, slot, isFresh: step.positions[first] === 0 };
  });
}

/** A step's ranges on the device, for all recurrences. Its memory is allocated when it is made. */
export class StateStepBuffer {
  numSequences = 0;
  /** vec4 of u32 `[sequences]`. */
  readonly words: GPUBuffer;
  readonly #gpu: GpuContext;
  readonly #words: Uint32Array<ArrayBuffer>;

  constructor(gpu: GpuContext, maxSequences: number) {
    this.#gpu = gpu;
    this.#words = new Uint32Array(maxSequences * WORDS);
    this.words = createBuffer(gpu, {
      label: "states of a step",
      size: this.#words.byteLength,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST,
    });
  }

  /** Writes a step's ranges to the device, ahead of whatever is submitted next. */
  write(step: StateStep): void {
    listRanges(step).forEach(({ first, end, slot, isFresh }, s) =>
      this.#words.set([first, end, slot, isFresh ? 1 : 0], s * WORDS)
    );
    this.numSequences = step.sequences.length;
    this.#gpu.device.queue.writeBuffer(this.words, 0, this.#words, 0, this.numSequences * WORDS);
  }

  dispose(): void {
    this.words.destroy();
  }
}
