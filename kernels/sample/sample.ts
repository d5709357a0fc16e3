/**
 * Chooses one token per row of logits on the device, so that only a few bytes per sequence are read back instead of its
 * logits.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext } from "../../src/gpu/device.ts";
import { type Elem, Kernel } from "../../src/gpu/kernel.ts";
import type { BufferRange } from "../../src/gpu/readback.ts";
import { FOUR } from "../common/wgsl.ts";
import {
  addend,
  computeInverseTemperature,
  computeLowestExponent,
  LARGEST_FLOAT32,
  rowKey,
} from "./sample_terms.ts";
import mainSource from "./sample.wgsl" with { type: "text" };
import { NothingToSampleError, type SampledToken, type SampleRow } from "./sample_row.ts";
import listSource from "./sample_list.wgsl" with { type: "text" };
import tokensSource from "./sample_tokens.wgsl" with { type: "text" };

/** Options of a sampler. */
export interface SamplerOptions {
  /** Size of the vocabulary, at most 2^31 - 1. */
  readonly vocabSize: number;
  /** Number of elements from one row of logits to the next. */
  readonly rowStride: number;
  /** Type of the logits. */
  readonly elem: Elem;
  /** Maximum number of rows of one call. */
  readonly maxRows: number;
}

const BINDINGS = {
  rows: "read",
  logits: "read",
  extras: "read",
  chosen: "read_write",
  top: "read_write",
} as const;

/** Maximum number of log-probabilities that can be reported per row. */
const MAX_TOP = 20;
const ROW_WORDS = 14;
const PAIR_BYTES = 8;
const NO_TOKEN = 0xffffffff;
const NO_BITMAP = 0xffffffff;
const PENALTY_APPLIES = 0x80000000;
/** Initial number of adjusted tokens per row for which there is memory. */
const FIRST_ADJUSTMENTS = 1024;

/**
 * Samples rows of logits: `write` the rows, `encode` the dispatch, read `results` back, `decode` them. Formula and
 * tokens are those of `sample_reference.ts`: a row's choice depends on neither its batch nor the backend.
 */
export class SampleKernel {
  readonly #gpu: GpuContext;
  readonly #options: SamplerOptions;
  readonly #kernel: Kernel<typeof BINDINGS>;
  readonly #rowsBuffer: GPUBuffer;
  readonly #chosen: GPUBuffer;
  readonly #top: GPUBuffer;
  #extrasBuffer: GPUBuffer;
  readonly #rowWords: Uint32Array<ArrayBuffer>;
  readonly #rowFloats: Float32Array<ArrayBuffer>;
  #extras: Uint32Array<ArrayBuffer>;
  #extraFloats: Float32Array<ArrayBuffer>;
  #numExtras = 0;
  /** The rows that were written last. */
  #rows: readonly SampleRow[] = [];

  constructor(gpu: GpuContext, options: SamplerOptions) {
    const { vocabSize, rowStride, elem, maxRows } = options;
    this.#gpu = gpu;
    this.#options = options;
    this.#kernel = Kernel.get(gpu, {
      name: "sample",
      source: FOUR[elem] + tokensSource + listSource + mainSource,
      bindings: BINDINGS,
      constants: {
        THREADS: gpu.isFallbackAdapter ? 64 : 256,
        VOCAB_SIZE: vocabSize,
        ROW_STRIDE: rowStride,
      },
    });
    this.#chosen = createStorage(gpu, "chosen tokens", maxRows * PAIR_BYTES);
    this.#top = createStorage(gpu, "likely tokens", maxRows * MAX_TOP * PAIR_BYTES);
    this.#rowWords = new Uint32Array(maxRows * ROW_WORDS);
    this.#rowFloats = new Float32Array(this.#rowWords.buffer);
    this.#rowsBuffer = createStorage(this.#gpu, "sample", this.#rowWords.byteLength);
    const numExtras = maxRows * 2 * (Math.ceil(vocabSize / 32) + FIRST_ADJUSTMENTS);
    this.#extras = new Uint32Array(numExtras);
    this.#extraFloats = new Float32Array(this.#extras.buffer);
    this.#extrasBuffer = createStorage(this.#gpu, "sample", this.#extras.byteLength);
  }

  /** Uploads the rows' parameters, before any work that is submitted later. */
  write(rows: readonly SampleRow[]): void {
    const { queue } = this.#gpu.device;
    this.#rows = rows;
    this.#numExtras = 0;
    this.#reserve(rows);
    rows.forEach((row, index) => this.#packRow(row, index * ROW_WORDS));
    queue.writeBuffer(this.#rowsBuffer, 0, this.#rowWords, 0, rows.length * ROW_WORDS);
    if (this.#numExtras > 0) {
      queue.writeBuffer(this.#extrasBuffer, 0, this.#extras, 0, this.#numExtras);
    }
  }

  /**
   * Appends the sampling of the rows that were written last: one dispatch.
   *
   * @param logits elem `[rows, rowStride]`, with valid values in the first `vocabSize` elements of each row; its size
   * is a multiple of 16 bytes.
   */
  encode(pass: ComputePass, logits: GPUBuffer): void {
    if (this.#rows.length === 0) return;
    const tensors = {
      rows: this.#rowsBuffer,
      logits,
      extras: this.#extrasBuffer,
      chosen: this.#chosen,
      top: this.#top,
    };
    this.#kernel.encode(pass, tensors, [this.#rows.length]);
  }

  /** The ranges to read back: 8 bytes per row, and 160 more if any row needs likely tokens. */
  results(): BufferRange[] {
    const numRows = this.#rows.length;
    const chosen = { buffer: this.#chosen, offset: 0, size: numRows * PAIR_BYTES };
    if (this.#rows.every((row) => !row.topLogprobs)) return [chosen];
    return [chosen, { buffer: this.#top, offset: 0, size: numRows * MAX_TOP * PAIR_BYTES }];
  }

  /**
   * Decodes the bytes of `results` into tokens.
   *
   * @throws {NothingToSampleError} when a row has no token to choose.
   */
  decode(bytes: Uint8Array<ArrayBuffer>): SampledToken[] {
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset);
    const floats = new Float32Array(bytes.buffer, bytes.byteOffset);
    const rows = this.#rows;
    const empty = rows.flatMap((_, index) => words[index * 2] === NO_TOKEN ? [index] : []);
    if (empty.length > 0) throw new NothingToSampleError(empty);
    const pair = (at: number) => ({ tokenId: words[at]!, logprob: floats[at + 1]! });
    return rows.map((row, index) => {
      const firstTop = (rows.length + index * MAX_TOP) * 2;
      const count = Math.min(row.topLogprobs ?? 0, this.#options.vocabSize);
      const top = Array.from({ length: count }, (_, n) => pair(firstTop + n * 2))
        .filter(({ tokenId }) => tokenId !== NO_TOKEN);
      return { ...pair(index * 2), top };
    });
  }

  dispose(): void {
    for (const buffer of [this.#rowsBuffer, this.#extrasBuffer, this.#chosen, this.#top]) {
      buffer.destroy();
    }
  }

  /** Grows the memory for bitmaps and adjustments by doubling, so that steps soon stop allocating. */
  #reserve(rows: readonly SampleRow[]): void {
    const bitmapWords = Math.ceil(this.#options.vocabSize / 32);
    let needed = 0;
    for (const row of rows) needed += 2 * (bitmapWords + (row.adjustments?.length ?? 0));
    if (needed <= this.#extras.length) return;
    this.#extras = new Uint32Array(2 * needed);
    this.#extraFloats = new Float32Array(this.#extras.buffer);
    this.#extrasBuffer.destroy();
    this.#extrasBuffer = createStorage(this.#gpu, "sample", this.#extras.byteLength);
  }

  #packRow(row: SampleRow, at: number): void {
    const { params } = row;
    const { temperature, topK, topP, repetitionPenalty } = params;
    const words = this.#rowWords;
    const floats = this.#rowFloats;
    words[at] = temperature === 0 ? 1 : 0;
    floats[at + 1] = computeInverseTemperature(params);
    floats[at + 2] = Math.max(computeLowestExponent(params), -LARGEST_FLOAT32);
    words[at + 3] = topK;
    floats[at + 4] = topP;
    words[at + 5] = rowKey(params.seed, row.tokenIndex);
    floats[at + 6] = repetitionPenalty;
    floats[at + 7] = 1 / repetitionPenalty;
    words[at + 12] = this.#packMask(row.mask);
    words[at + 10] = row.adjustments === undefined ? words[at + 12]! : this.#packBitmap(row);
    words[at + 9] = this.#packAdjustments(row);
    words[at + 8] = (this.#numExtras - words[at + 9]!) / 2;
    floats[at + 13] = params.topNSigma ?? 0;
    words[at + 11] = Math.min(row.topLogprobs ?? 0, this.#options.vocabSize);
  }

  #packMask(mask: Uint32Array | undefined): number {
    if (mask === undefined) return NO_BITMAP;
    const at = this.#numExtras;
    this.#numExtras += Math.ceil(this.#options.vocabSize / 32);
    this.#extras.set(mask.subarray(0, this.#numExtras - at), at);
    return at;
  }

  /** Packs a bitmap of the allowed tokens whose logits need no adjustment. */
  #packBitmap({ mask, adjustments }: SampleRow): number {
    const at = this.#numExtras;
    if (mask !== undefined) this.#packMask(mask);
    else {
      this.#numExtras += Math.ceil(this.#options.vocabSize / 32);
      this.#extras.fill(0xffffffff, at, this.#numExtras);
    }
    for (let i = 0; i < (adjustments?.length ?? 0); i++) {
      const id = adjustments!.tokenIds[i]!;
      if (id >= this.#options.vocabSize) continue;
      this.#extras[at + (id >>> 5)]! &= ~(1 << (id & 31));
    }
    return at;
  }

  /** Packs the adjustments. A prompt may contain tokens beyond the logits, which are left out. */
  #packAdjustments(row: SampleRow): number {
    const { adjustments, mask } = row;
    const at = this.#numExtras;
    for (let i = 0; i < (adjustments?.length ?? 0); i++) {
      const id = adjustments!.tokenIds[i]!;
      if (id >= this.#options.vocabSize) continue;
      const isMasked = mask !== undefined && (mask[id >>> 5]! >>> (id & 31) & 1) === 0;
      this.#extras[this.#numExtras] = id + (adjustments!.inContext[i] === 0 ? 0 : PENALTY_APPLIES);
      this.#extraFloats[this.#numExtras + 1] = isMasked ? -Infinity : addend(row, i);
      this.#numExtras += 2;
    }
    return at;
  }
}
