/**
 * Attention of many queries on the CPU by ONNX Runtime, whose products use all of the processor's vector width, unlike
 * WebAssembly. Copying a sequence's cache for it costs little compared with many queries.
 *
 * @module
 */
import type { SimdAttention } from "../../../kernels/attention/attention_simd.ts";
import type { RowLayout } from "../../../kernels/attention/kv_write.ts";
import type { PackedStep } from "../../../kernels/attention/step_plan.ts";
import { CAUSAL_INPUTS, causalAttentionModel } from "../../graph/attention_model.ts";
import { type GraphSession, Tensor } from "../ort/ort.ts";
import { writeModel } from "../../graph/file/proto_write.ts";
import type { SiteParams } from "../attention_params.ts";

/** Least queries of a sequence for which this is faster. */
const MIN_QUERIES = 32;
/** Queries that are worked on together: keys after the last of them are left out. */
const CHUNK = 128;

/** Opens a graph on ONNX Runtime. */
export type OpenSession = (model: Uint8Array) => Promise<GraphSession>;

export class PromptAttention {
  readonly #layers: readonly SiteParams[];
  readonly #openSession: OpenSession;
  /** Sessions by their parameters; opened at the first prompt. */
  readonly #sessions = new Map<string, Promise<GraphSession>>();
  /** Reused buffers, since runs do not overlap. */
  readonly #buffers = new Map<string, Float32Array<ArrayBuffer>>();

  constructor(layers: readonly SiteParams[], openSession: OpenSession) {
    this.#layers = layers;
    this.#openSession = openSession;
  }

  /** Whether it supports the layers' parameters. */
  static canRun(layers: readonly SiteParams[]): boolean {
    return layers.every(({ shape: { headSize }, attend }) =>
      headSize % 8 === 0 && !attend.hasSinks
    );
  }

  /** The sequences of a step that it handles. */
  static choose({ sequences, queryStarts }: PackedStep): number[] {
    return Array.from({ length: sequences.length }, (_, s) => s)
      .filter((s) => queryStarts[s + 1]! - queryStarts[s]! >= MIN_QUERIES);
  }

  /**
   * Attends for one sequence, whose keys and values the layer has written.
   *
   * @param run.into where the result goes, `[queries, heads * headSize]`.
   */
  async run(
    layer: number,
    { kernels, step, sequence, into }: {
      readonly kernels: SimdAttention;
      readonly step: PackedStep;
      readonly sequence: number;
      readonly into: Float32Array | Float16Array;
    },
  ): Promise<void> {
    const { shape, write, attend: { window } } = this.#layers[layer]!;
    const { heads, kvHeads, headSize } = shape;
    const first = step.queryStarts[sequence]!;
    const numQueries = step.queryStarts[sequence + 1]! - first;
    const numPast = step.kvLengths[sequence]! - numQueries;
    // Blocks before what the first query sees are not read.
    const skippedBlocks = window > 0
      ? Math.floor(Math.max(0, numPast - window + 1) / shape.blockSize)
      : 0;
    const firstRead = skippedBlocks * shape.blockSize;
    const numKeys = step.kvLengths[sequence]! - firstRead;
    const table = sequence * step.maxBlocksPerSequence;
    const blocks = step.blockTables.subarray(
      table + skippedBlocks,
      table + step.maxBlocksPerSequence,
    );

    const cacheLength = kvHeads * numKeys * headSize;
    const keys = this.#buffer("keys", cacheLength);
    const values = this.#buffer("values", cacheLength);
    kernels.readCache(layer, { blocks, numKeys, keys, values });
    const width = heads * headSize;
    const queries = this.#buffer("queries", numQueries * width);
    const { q } = kernels.inputs(layer);
    copyRows(q, queries, { ...write.q, width, first, numRows: numQueries });
    // ONNX Runtime writes f32 into memory that nobody shares.
    const out = into instanceof Float32Array ? into : this.#buffer("out", into.length);
    const session = await this.#getSession(layer);
    for (let query = 0; query < numQueries; query += CHUNK) {
      const numTokens = Math.min(CHUNK, numQueries - query);
      const position = numPast + query;
      const range = {
        firstKey: window > 0 ? Math.max(0, position - window + 1) : 0,
        endKey: position + numTokens,
      };
      const dims = [numTokens, kvHeads, width / kvHeads];
      const rows = (all: Float32Array<ArrayBuffer>) =>
        new Tensor("float32", all.subarray(query * width, (query + numTokens) * width), dims);
      await session.run({
        [CAUSAL_INPUTS.q]: rows(queries),
        ...this.#positions(position, { ...range, numTokens, group: heads / kvHeads }),
        ...describeHeads(keys, CAUSAL_INPUTS.k, {
          ...range,
          firstRead,
          numKeys,
          kvHeads,
          headSize,
        }),
        ...describeHeads(values, CAUSAL_INPUTS.v, {
          ...range,
          firstRead,
          numKeys,
          kvHeads,
          headSize,
        }),
      }, { out: rows(out as Float32Array<ArrayBuffer>) });
    }
    if (out !== into) into.set(out);
  }

  /** Positions of a chunk's rows, and of the keys that they may see. */
  #positions(
    position: number,
    { firstKey, endKey, numTokens, group }: {
      readonly firstKey: number;
      readonly endKey: number;
      readonly numTokens: number;
      readonly group: number;
    },
  ): Record<string, Tensor> {
    const numRows = numTokens * group;
    const queries = this.#buffer("queryPositions", numRows);
    for (let row = 0; row < numRows; row++) queries[row] = position + Math.floor(row / group);
    const numKeys = endKey - firstKey;
    const keys = this.#buffer("keyPositions", numKeys);
    for (let key = 0; key < numKeys; key++) keys[key] = firstKey + key;
    return {
      [CAUSAL_INPUTS.queryPositions]: new Tensor("float32", queries, [numRows, 1]),
      [CAUSAL_INPUTS.keyPositions]: new Tensor("float32", keys, [1, numKeys]),
    };
  }

  /** Closes its sessions. */
  dispose(): void {
    for (const session of this.#sessions.values()) {
      // A session that failed to open has reported that to its user.
      session.then((opened) => opened.release(), () => {});
    }
    this.#sessions.clear();
    this.#buffers.clear();
  }

  #getSession(layer: number): Promise<GraphSession> {
    const { shape: { heads, kvHeads, headSize }, attend } = this.#layers[layer]!;
    const { scale, softcap, window } = attend;
    const attention = { heads, kvHeads, headSize, scale, softcap, window };
    const key = JSON.stringify(attention);
    let session = this.#sessions.get(key);
    if (session === undefined) {
      session = this.#openSession(writeModel(causalAttentionModel(attention)));
      this.#sessions.set(key, session);
    }
    return session;
  }

  /** The first `length` elements of a buffer that grows to what the longest prompt needs. */
  #buffer(name: string, length: number): Float32Array<ArrayBuffer> {
    let buffer = this.#buffers.get(name);
    if (buffer === undefined || buffer.length < length) {
      buffer = new Float32Array(length);
      this.#buffers.set(name, buffer);
    }
    return buffer.subarray(0, length);
  }
}

/** The keys or values of a range, by head: parts of those from `firstRead` on, `[kvHeads, numKeys, headSize]`. */
function describeHeads(
  all: Float32Array<ArrayBuffer>,
  getName: (head: number) => string,
  { firstKey, endKey, firstRead, numKeys, kvHeads, headSize }: {
    readonly firstKey: number;
    readonly endKey: number;
    readonly firstRead: number;
    readonly numKeys: number;
    readonly kvHeads: number;
    readonly headSize: number;
  },
): Record<string, Tensor> {
  const dims = [endKey - firstKey, headSize];
  return Object.fromEntries(Array.from({ length: kvHeads }, (_, head) => {
    const begin = head * numKeys - firstRead;
    const part = all.subarray((begin + firstKey) * headSize, (begin + endKey) * headSize);
    return [getName(head), new Tensor("float32", part, dims)];
  }));
}

/** Packs rows, which may be parts of wider ones. */
function copyRows(
  from: Float32Array,
  into: Float32Array,
  { stride, offset, width, first, numRows }: RowLayout & {
    readonly width: number;
    readonly first: number;
    readonly numRows: number;
  },
): void {
  if (stride === width) {
    into.set(from.subarray(first * width, (first + numRows) * width));
    return;
  }
  for (let row = 0; row < numRows; row++) {
    const at = (first + row) * stride + offset;
    into.set(from.subarray(at, at + width), row * width);
  }
}
