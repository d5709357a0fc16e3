/**
 * Maps the rows of a step to states, for the kernels of recurrences.
 *
 * @module
 */
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";

/** A slot in which a sequence's state is saved while a step computes its rows. */
export interface SavedState {
  /** Number of the sequence's rows in the step after which its state is saved. */
  readonly numTokens: number;
  /** A slot that no sequence of the step has. */
  readonly slot: number;
}

/** The sequences of a step, as far as states need them. */
export interface StateStep {
  readonly sequences: readonly { readonly savedState?: SavedState | undefined }[];
  /** i32 `[numTokens]`: position of each token in its own sequence. */
  readonly positions: Int32Array;
  /** i32 `[sequences + 1]`. */
  readonly queryStarts: Int32Array;
  /** i32 `[sequences]`: the slot of each sequence's states; slots 0, 1, 2 … if absent. */
  readonly stateSlots?: Int32Array | undefined;
}

/** The rows and the slot of one sequence. */
export interface StateRange {
  readonly first: number;
  readonly end: number;
  readonly slot: number;
  /** Whether the sequence's state is zero before its first row. */
  readonly isFresh: boolean;
  /** The state after row `end - 1` also goes to another slot. */
  readonly saved?: { readonly end: number; readonly slot: number } | undefined;
}

/** Number of words per sequence: two vectors, see {@linkcode StateStepBuffer.words}. */
const WORDS = 8;

/** The ranges of a step's sequences. */
export function listRanges(step: StateStep): StateRange[] {
  return step.sequences.map(({ savedState }, s) => {
    const [first, end] = [step.queryStarts[s]!, step.queryStarts[s + 1]!];
    const slot = step.stateSlots?.[s] ?? s;
    const saved = savedState && { end: first + savedState.numTokens, slot: savedState.slot };
    return { first, end, slot, isFresh: step.positions[first] === 0, saved };
  });
}

/** A step's ranges on the device, for all recurrences. All memory is allocated in the constructor. */
export class StateStepBuffer {
  numSequences = 0;
  /**
   * Two vec4 of u32 per sequence: first row, end of its rows, slot, whether its state starts at zero; end of the rows
   * after which it is also saved in a second slot (0 if it is not), and that slot.
   */
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

  /** Writes a step's ranges to the device, before any work that is submitted later. */
  write(step: StateStep): void {
    listRanges(step).forEach(({ first, end, slot, isFresh, saved }, s) =>
      this.#words.set(
        [first, end, slot, isFresh ? 1 : 0, saved?.end ?? 0, saved?.slot ?? 0],
        s * WORDS,
      )
    );
    this.numSequences = step.sequences.length;
    this.#gpu.device.queue.writeBuffer(this.words, 0, this.#words, 0, this.numSequences * WORDS);
  }

  dispose(): void {
    this.words.destroy();
  }
}
