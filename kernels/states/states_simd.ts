/**
 * Recurrences in WebAssembly SIMD. Their states, and the rows of a step that are being computed, lie in one linear
 * memory.
 *
 * @module
 */
import { Arena } from "../cpu/arena.ts";
import { instantiateKernels, type KernelExports } from "../cpu/kernel_module.ts";
import { type KernelThreads, STEP_POLLS } from "../cpu/kernel_threads.ts";
import type { KernelName } from "../cpu/thread_control.ts";
import {
  type CausalConvParams,
  checkLinearAttention,
  checkTaps,
  type LinearAttentionParams,
} from "./recurrences.ts";
import type { StateRange } from "./state_step.ts";

/** Number of rows computed at a time. */
const MAX_ROWS = 64;
/** Words of a sequence: see `StateRange` of `../wasm/layout.ts`. */
const RANGE_WORDS = 6;
/** Number of a convolution's channels in one part of the work. */
const PART_CHANNELS = 256;
/** Cost of an activation, in multiplications. */
const ACTIVATION_FLOPS = 20;

type Numbers = Float32Array | Float16Array;

/** A recurrence, its parameters and its constants. */
export type SimdRecurrence =
  /** `factors` in the layout of `joinConvFactors()`. */
  | {
    readonly kind: "convolution";
    readonly params: Omit<CausalConvParams, "elem">;
    readonly factors: Float32Array;
  }
  | { readonly kind: "attention"; readonly params: Omit<LinearAttentionParams, "elem"> };

/** Rows of a recurrence's operands and result, in the layout of its tensors. A convolution only has `x` and `out`. */
export interface StateArrays {
  readonly x?: Numbers;
  readonly q?: Numbers;
  readonly k?: Numbers;
  readonly v?: Numbers;
  readonly decays?: Float32Array | undefined;
  readonly betas?: Float32Array | undefined;
  readonly out: Numbers;
}

/** An operand, whose rows are copied to the linear memory. */
interface Operand {
  readonly name: Exclude<keyof StateArrays, "out">;
  /** Distance between the rows of the tensor, in elements. A row's elements begin at `offset`. */
  readonly stride: number;
  readonly offset: number;
  readonly width: number;
  /** Number of elements from one row to the next in the linear memory. */
  readonly step: number;
  readonly isLogarithm?: boolean;
}

/** A recurrence with its addresses. */
interface Placed {
  readonly kernel: KernelName;
  readonly operands: readonly (Operand & { readonly at: number })[];
  readonly outWidth: number;
  readonly outAt: number;
  /** The words of the kernel's structure for this recurrence. */
  readonly words: Uint32Array;
  readonly state: number;
  /** Number of elements of a state. */
  readonly stateLength: number;
  /** Number of parts of the work per sequence. */
  readonly parts: number;
  readonly flopsPerRow: number;
}

/** Limits of the states, and the threads that run the kernels. */
interface SimdStatesOptions {
  readonly numSlots: number;
  readonly maxSequences: number;
  readonly threads: KernelThreads;
}

/** Rounds a number of elements up to whole vectors. */
function padded(length: number): number {
  return Math.ceil(length / 4) * 4;
}

export class SimdStates {
  readonly #threads: KernelThreads;
  readonly #memory: WebAssembly.Memory;
  readonly #exports: KernelExports;
  readonly #floats: Float32Array;
  readonly #placed: readonly Placed[];
  readonly #nodeAt: number;
  readonly #rangesAt: number;
  readonly #scratch: number;
  readonly #scratchBytes: number;

  /**
   * @throws {RangeError} when the kernels do not support the shape of a recurrence.
   * @throws {StartupError} when there is not enough memory.
   */
  constructor(
    recurrences: readonly SimdRecurrence[],
    { numSlots, maxSequences, threads }: SimdStatesOptions,
  ) {
    const arena = new Arena();
    this.#threads = threads;
    this.#nodeAt = arena.reserve(20);
    this.#rangesAt = arena.reserve(RANGE_WORDS * maxSequences);
    // Recurrences run one after the other, so they share the memory for rows.
    const rows = arena.reserve(Math.max(...recurrences.map(countRowsElements)));
    this.#scratchBytes = Math.max(...recurrences.map(scratchBytes));
    this.#scratch = arena.reserve(this.#scratchBytes / 4 * threads.numThreads);
    this.#placed = recurrences.map((each) => place(each, { arena, rows, numSlots }));
    this.#memory = arena.allocate({ what: "States of sequences", hasLargePages: true });
    this.#exports = instantiateKernels(this.#memory);
    this.#floats = new Float32Array(this.#memory.buffer);
  }

  /** Copies the states of a slot to another. */
  copy(from: number, to: number): void {
    for (const { state, stateLength } of this.#placed) {
      const first = state / 4;
      this.#floats.copyWithin(
        first + to * stateLength,
        first + from * stateLength,
        first + (from + 1) * stateLength,
      );
    }
  }

  /** Runs a recurrence over the rows of a step. The ranges must be contiguous, beginning with row 0. */
  run(index: number, arrays: StateArrays, ranges: readonly StateRange[]): void {
    const numRows = ranges.at(-1)?.end ?? 0;
    for (let first = 0; first < numRows; first += MAX_ROWS) {
      const end = Math.min(first + MAX_ROWS, numRows);
      const here = ranges.filter((range) => range.first < end && range.end > first);
      this.#runRows(this.#placed[index]!, arrays, { first, end, ranges: here });
    }
  }

  /** Makes the threads drop the memory. The JavaScript engine frees it when it is unreferenced. */
  dispose(): void {
    this.#threads.release(this.#memory);
  }

  #runRows(
    node: Placed,
    arrays: StateArrays,
    { first, end, ranges }: {
      readonly first: number;
      readonly end: number;
      readonly ranges: readonly StateRange[];
    },
  ): void {
    const numRows = end - first;
    for (const operand of node.operands) this.#gather(operand, arrays[operand.name]!, first, end);
    const words = new Uint32Array(this.#memory.buffer);
    words.set(node.words, this.#nodeAt / 4);
    ranges.forEach((range, i) => {
      const from = Math.max(range.first, first);
      const isFresh = range.isFresh && from === range.first;
      const isSaved = range.saved && range.saved.end > from && range.saved.end <= end;
      const saved = isSaved ? [range.saved.end - first, range.saved.slot] : [0, 0];
      words.set(
        [from - first, Math.min(range.end, end) - first, range.slot, isFresh ? 1 : 0, ...saved],
        this.#rangesAt / 4 + RANGE_WORDS * i,
      );
    });
    this.#threads.run({
      kernel: node.kernel,
      memory: this.#memory,
      exports: this.#exports,
      ...{ node: this.#nodeAt, step: this.#rangesAt, items: 0, polls: STEP_POLLS },
      numParts: node.parts * ranges.length,
      scratch: this.#scratch,
      scratchBytes: this.#scratchBytes,
      flops: node.flopsPerRow * numRows,
    });
    const { outAt, outWidth } = node;
    const result = this.#floats.subarray(outAt / 4, outAt / 4 + numRows * outWidth);
    arrays.out.subarray(first * outWidth, end * outWidth).set(result);
  }

  /** Copies rows `first` to `end` of an operand to the kernel's memory. */
  #gather(operand: Placed["operands"][number], source: Numbers, first: number, end: number): void {
    const { at, stride, offset, width, step, isLogarithm } = operand;
    for (let row = first, to = at / 4; row < end; row++, to += step) {
      const from = row * stride + offset;
      this.#floats.set(source.subarray(from, from + width), to);
      if (!isLogarithm) continue;
      for (let i = to; i < to + width; i++) this.#floats[i] = Math.exp(this.#floats[i]!);
    }
  }
}

/** The operands of a recurrence, in the order of its structure. */
function listOperands(node: SimdRecurrence): Operand[] {
  if (node.kind === "convolution") {
    const { channels, stride, offset } = node.params;
    return [{ name: "x", stride, offset, width: channels, step: padded(channels) }];
  }
  const { params } = node;
  const { heads, queryHeads, keyHeads, keyDim, valueDim, decay, decaysRows, rates } = params;
  const operand = (name: "q" | "k" | "v" | "decays" | "betas", width: number): Operand => ({
    ...{ name, width, step: width, ...params[name] },
    isLogarithm: name === "decays" && decay === "logarithm",
  });
  return [
    operand("q", queryHeads * keyDim),
    operand("k", keyHeads * keyDim),
    operand("v", heads * valueDim),
    ...decay === undefined ? [] : [operand("decays", decaysRows ? heads * keyDim : heads)],
    ...rates === 0 ? [] : [operand("betas", rates)],
  ];
}

function outWidth({ kind, params }: SimdRecurrence): number {
  return kind === "convolution" ? params.channels : params.heads * params.valueDim;
}

/**
 * Number of elements of the operands and results for the rows computed at a time; the last vector may extend beyond a
 * row.
 */
function countRowsElements(node: SimdRecurrence): number {
  const steps = listOperands(node).map(({ step }) => step);
  return [...steps, outWidth(node)].reduce((sum, step) => sum + padded(MAX_ROWS * step) + 4, 0);
}

/** Bytes for the addresses of a convolution's inputs. */
function scratchBytes({ kind, params }: SimdRecurrence): number {
  return kind === "convolution" ? Math.ceil(params.taps / 16) * 64 : 0;
}

function place(
  node: SimdRecurrence,
  { arena, rows, numSlots }: {
    readonly arena: Arena;
    readonly rows: number;
    readonly numSlots: number;
  },
): Placed {
  let at = rows;
  const take = (step: number) => {
    const taken = at;
    at += (padded(MAX_ROWS * step) + 4) * 4;
    return taken;
  };
  const operands = listOperands(node).map((operand) => ({ ...operand, at: take(operand.step) }));
  const out = take(outWidth(node));
  const getAddress = (name: Operand["name"]) =>
    operands.find((operand) => operand.name === name)?.at ?? 0;
  const common = { operands, outAt: out, outWidth: outWidth(node) };
  if (node.kind === "convolution") {
    const { params: { channels, taps, activation }, factors } = node;
    checkTaps(node.params);
    const stride = padded(channels);
    const stateLength = (taps - 1) * stride;
    const state = arena.reserve(numSlots * stateLength);
    const placed = arena.place(padRows(factors, channels, stride));
    return {
      kernel: "causalConv",
      ...common,
      // The words are in the order of `ConvNode`'s fields.
      words: Uint32Array.of(
        ...[channels, stride, taps, activation === "silu" ? 1 : 0, PART_CHANNELS],
        ...[getAddress("x"), placed, state, out],
      ),
      ...{ state, stateLength },
      parts: Math.ceil(channels / PART_CHANNELS),
      flopsPerRow: channels * (2 * taps + (activation ? ACTIVATION_FLOPS : 0)),
    };
  }
  const { params } = node;
  checkLinearAttention(params);
  const { heads, queryHeads, keyHeads, keyDim, valueDim, scale, decay, decaysRows } = params;
  const valueStride = padded(valueDim);
  const stateLength = heads * keyDim * valueStride;
  const state = arena.reserve(numSlots * stateLength);
  return {
    kernel: "linearAttention",
    ...common,
    // The words are in the order of `LinearNode`'s fields.
    words: Uint32Array.of(
      ...[heads, queryHeads, keyHeads, keyDim, valueDim, valueStride],
      new Uint32Array(Float32Array.of(scale).buffer)[0]!,
      ...[decay === undefined ? 0 : 1, decay !== undefined && decaysRows ? 1 : 0, params.rates],
      ...(["q", "k", "v", "decays", "betas"] as const).map(getAddress),
      ...[state, out],
    ),
    ...{ state, stateLength },
    parts: heads,
    flopsPerRow: 7 * heads * keyDim * valueDim,
  };
}

/** Copies rows of `width` elements to rows that are `stride` elements apart. */
function padRows(rows: Float32Array, width: number, stride: number): Float32Array {
  const numRows = rows.length / width;
  const result = new Float32Array(numRows * stride);
  for (let row = 0; row < numRows; row++) {
    result.set(rows.subarray(row * width, (row + 1) * width), row * stride);
  }
  return result;
}
