/**
 * Attention of many queries on the CPU in ONNX Runtime, whose matrix products use the processor's full vector width,
 * unlike WebAssembly. Copying a sequence's cache for it costs little compared with the work of many queries.
 *
 * @module
 */
import type { SimdAttention, SimdLayer } from "../../../kernels/attention/attention_simd.ts";
import type { PackedStep } from "../../../kernels/attention/step_plan.ts";
import { buildMaskedAttention, MASKED_INPUTS } from "../../graph/built_models.ts";
import { type GraphSession, Tensor } from "../ort/ort.ts";
import { writeModel } from "../../graph/file/proto_codec.ts";
import type { KernelParams, Slices } from "../attention.ts";

/** Minimum number of queries of a sequence for which this is faster. */
const MIN_QUERIES = 32;
/** Queries that are processed together. Keys after the last of them are left out. */
const CHUNK = 128;
/**
 * Minimum number of queries that are processed together while other sequences wait for their next tokens: all keys are
 * read again for each group of queries.
 */
const LEAST_CHUNK = 8;
/** Keys of a head that are copied at a time, in whole blocks. */
const COPIED_KEYS = 256;
/** Added to the score of a key that a row must not attend to, so that its weight rounds to 0. */
const OUT_OF_SIGHT = -1e30;

/** Opens a graph on ONNX Runtime. */
export type OpenSession = (model: Uint8Array) => Promise<GraphSession>;

/** A step whose keys and values have been written to the layer's cache. */
interface PromptRun {
  readonly kernels: SimdAttention;
  readonly step: PackedStep;
  /** Indices of the sequences to compute. */
  readonly sequences: readonly number[];
  /** Destination of the result: `[tokens, heads * headSize]`. */
  readonly into: Float32Array | Float16Array;
  readonly slices: Slices | undefined;
}

/** One sequence of a {@linkcode PromptRun}. */
interface SequenceRun extends PromptRun {
  readonly sequence: number;
  /** Queries of the whole step, for each head of keys: `[tokens, heads of queries that share the keys, headSize]`. */
  readonly queries: readonly Float32Array<ArrayBuffer>[];
}

/** A layer's parameters, and the slopes of its heads if it has a bias by distance. */
type PromptLayer = KernelParams & Pick<SimdLayer, "slopes">;

/** Copies of a sequence's keys and values for each head: `[keys, headSize]`, from `firstKey` on. */
interface CopiedCache {
  readonly firstKey: number;
  readonly keys: readonly Float32Array<ArrayBuffer>[];
  readonly values: readonly Float32Array<ArrayBuffer>[];
}

/** Rows that are parts of wider rows. */
interface RowPart {
  readonly stride: number;
  readonly offset: number;
}

export class PromptAttention {
  readonly #layers: readonly PromptLayer[];
  readonly #openSession: OpenSession;
  /** Sessions by their parameters, opened for the first prompt. */
  readonly #sessions = new Map<string, Promise<GraphSession>>();
  /** Reused buffers, since runs do not overlap. */
  readonly #buffers = new Map<string, Float32Array<ArrayBuffer>>();

  constructor(layers: readonly PromptLayer[], openSession: OpenSession) {
    this.#layers = layers;
    this.#openSession = openSession;
  }

  /** Whether this attention supports the layers' parameters. */
  static canRun(layers: readonly KernelParams[]): boolean {
    return layers.every(({ shape: { headSize }, attend }) =>
      headSize % 8 === 0 && !attend.hasSinks
    );
  }

  /** Chooses the sequences of a step that have enough queries for this attention. */
  static choose({ sequences, queryStarts }: PackedStep): number[] {
    return Array.from({ length: sequences.length }, (_, s) => s)
      .filter((s) => queryStarts[s + 1]! - queryStarts[s]! >= MIN_QUERIES);
  }

  /**
   * Attends for sequences of a step. Heads of keys are processed one by one, so that the scores stay in the processor's
   * cache. Each head of keys is processed together with all heads of queries that share it.
   */
  async run(layer: number, run: PromptRun): Promise<void> {
    const { shape: { heads, kvHeads, headSize }, write: { q: { stride, offset } } } = this
      .#layers[layer]!;
    const width = heads / kvHeads * headSize;
    const { kernels, step, sequences } = run;
    // Copied first: while this step is suspended, another step overwrites the kernels' memory.
    const queries = this.#divideBuffer("queries", kvHeads, step.numTokens * width);
    const { q } = kernels.inputs(layer);
    for (const [head, rows] of queries.entries()) {
      gatherRows(q, { stride, offset: offset + head * width }, { rows, width });
    }
    for (const sequence of sequences) {
      await this.#runSequence(layer, { ...run, sequence, queries });
    }
  }

  async #runSequence(layer: number, run: SequenceRun): Promise<void> {
    const { step, sequence, queries, into, slices } = run;
    const { shape: { heads, kvHeads, headSize }, attend, slopes } = this.#layers[layer]!;
    const group = heads / kvHeads;
    const first = step.queryStarts[sequence]!;
    const numQueries = step.queryStarts[sequence + 1]! - first;
    const numPast = step.kvLengths[sequence]! - numQueries;
    const width = group * headSize;
    const cache = await this.#copyCache(layer, run);
    const session = await this.#getSession(layer);
    const runQueries = async (query: number, end: number) => {
      const position = numPast + query;
      const firstKey = attend.window > 0 ? Math.max(0, position - attend.window + 1) : 0;
      const range = { firstKey, numKeys: numPast + end - firstKey };
      const numRows = (end - query) * group;
      const makeMask = (slopes?: Float32Array) =>
        this.#makeMask(position, { ...range, ...attend, numRows, group, slopes });
      const shared = slopes ? undefined : makeMask();
      const tensor = (rows: Float32Array<ArrayBuffer>, firstRow: number, numRows: number) => {
        const part = rows.subarray(firstRow * headSize, (firstRow + numRows) * headSize);
        return new Tensor("float32", part, [numRows, headSize]);
      };
      await slices?.pause();
      for (let head = 0; head < kvHeads; head++) {
        const startedAtMs = performance.now();
        const mask = shared ?? makeMask(slopes!.subarray(head * group, (head + 1) * group));
        // ONNX Runtime writes f32, into memory that is not shared.
        const out = this.#buffer("out", (end - query) * width);
        await session.run({
          [MASKED_INPUTS.q]: tensor(queries[head]!, (first + query) * group, numRows),
          [MASKED_INPUTS.k]: tensor(cache.keys[head]!, firstKey - cache.firstKey, range.numKeys),
          [MASKED_INPUTS.v]: tensor(cache.values[head]!, firstKey - cache.firstKey, range.numKeys),
          [MASKED_INPUTS.mask]: mask,
        }, { out: tensor(out, 0, numRows) });
        const stride = heads * headSize;
        const offset = (first + query) * stride + head * width;
        scatterRows(into, { stride, offset }, { rows: out, width });
        if (head < kvHeads - 1) await slices?.pause(performance.now() - startedAtMs);
      }
    };
    if (slices?.divides) {
      const weight = Math.min(numPast + numQueries, attend.window || Infinity);
      const work = { key: session, least: LEAST_CHUNK, most: CHUNK, weight, numInner: kvHeads };
      await slices.divide({ ...work, length: numQueries }, runQueries);
      return;
    }
    for (let query = 0; query < numQueries; query += CHUNK) {
      await runQueries(query, Math.min(query + CHUNK, numQueries));
    }
  }

  /** Copies the keys and values that the queries of a sequence attend to. */
  async #copyCache(
    layer: number,
    { kernels, step, sequence, slices }: SequenceRun,
  ): Promise<CopiedCache> {
    const { shape: { kvHeads, headSize, blockSize }, attend: { window } } = this.#layers[layer]!;
    const length = step.kvLengths[sequence]!;
    const numPast = length - (step.queryStarts[sequence + 1]! - step.queryStarts[sequence]!);
    // Skips blocks before those that the first query attends to.
    const firstBlock = window > 0 ? Math.floor(Math.max(0, numPast - window + 1) / blockSize) : 0;
    const firstKey = firstBlock * blockSize;
    const numKeys = length - firstKey;
    const table = sequence * step.maxBlocksPerSequence;
    const blocks = step.blockTables.subarray(table + firstBlock, table + step.maxBlocksPerSequence);
    const keys = this.#divideBuffer("keys", kvHeads, numKeys * headSize);
    const values = this.#divideBuffer("values", kvHeads, numKeys * headSize);
    for (let head = 0; head < kvHeads; head++) {
      for (let first = 0; first < numKeys; first += COPIED_KEYS) {
        kernels.readCache(layer, {
          ...{ head, numKeys: Math.min(COPIED_KEYS, numKeys - first) },
          blocks: blocks.subarray(first / blockSize),
          keys: keys[head]!.subarray(first * headSize),
          values: values[head]!.subarray(first * headSize),
        });
        await slices?.pause();
      }
    }
    return { firstKey, keys, values };
  }

  /**
   * Makes the mask that is added to the scores: `[rows, keys]`. Each position, from `position` on, has `group` rows:
   * one for each slope, if there are slopes.
   */
  #makeMask(
    position: number,
    { firstKey, numKeys, numRows, group, window, slopes }: {
      readonly firstKey: number;
      readonly numKeys: number;
      readonly numRows: number;
      readonly group: number;
      readonly window: number;
      readonly slopes: Float32Array | undefined;
    },
  ): Tensor {
    const mask = this.#buffer("mask", numRows * numKeys);
    for (let row = 0; row < numRows; row++) {
      const seen = mask.subarray(row * numKeys, (row + 1) * numKeys);
      const own = position + Math.floor(row / group) - firstKey;
      const first = window > 0 ? Math.max(0, own - window + 1) : 0;
      seen.fill(OUT_OF_SIGHT, 0, first).fill(0, first, own + 1).fill(OUT_OF_SIGHT, own + 1);
      const slope = slopes?.[row % group] ?? 0;
      if (slope === 0) continue;
      for (let key = first; key < own; key++) seen[key] = slope * (key - own);
    }
    return new Tensor("float32", mask, [numRows, numKeys]);
  }

  /** Closes its sessions. */
  dispose(): void {
    for (const session of this.#sessions.values()) {
      // The error of a session that failed to open has already been reported.
      session.then((opened) => opened.release(), () => {});
    }
    this.#sessions.clear();
    this.#buffers.clear();
  }

  #getSession(layer: number): Promise<GraphSession> {
    const { shape: { headSize }, attend: { scale, softcap } } = this.#layers[layer]!;
    const attention = { headSize, scale, softcap };
    const key = JSON.stringify(attention);
    let session = this.#sessions.get(key);
    if (session === undefined) {
      session = this.#openSession(writeModel(buildMaskedAttention(attention)));
      this.#sessions.set(key, session);
    }
    return session;
  }

  /** Returns the first `length` elements of a buffer, which grows to what the longest prompt needs. */
  #buffer(name: string, length: number): Float32Array<ArrayBuffer> {
    let buffer = this.#buffers.get(name);
    if (buffer === undefined || buffer.length < length) {
      buffer = new Float32Array(length);
      this.#buffers.set(name, buffer);
    }
    return buffer.subarray(0, length);
  }

  /** Returns a buffer like `#buffer`, divided among heads. */
  #divideBuffer(name: string, numHeads: number, length: number): Float32Array<ArrayBuffer>[] {
    const buffer = this.#buffer(name, numHeads * length);
    return Array.from(
      { length: numHeads },
      (_, head) => buffer.subarray(head * length, (head + 1) * length),
    );
  }
}

/** Packs rows that are parts of wider rows. */
function gatherRows(
  from: Float32Array,
  { stride, offset }: RowPart,
  { rows, width }: { readonly rows: Float32Array; readonly width: number },
): void {
  for (let at = 0, begin = offset; at < rows.length; at += width, begin += stride) {
    rows.set(from.subarray(begin, begin + width), at);
  }
}

/** Writes packed rows into parts of wider rows. */
function scatterRows(
  into: Float32Array | Float16Array,
  { stride, offset }: RowPart,
  { rows, width }: { readonly rows: Float32Array; readonly width: number },
): void {
  for (let at = 0, begin = offset; at < rows.length; at += width, begin += stride) {
    into.set(rows.subarray(at, at + width), begin);
  }
}
