/**
 * Attention of many queries on the CPU by ONNX Runtime, whose products use all of the processor's vector width, unlike
 * WebAssembly. Copying a sequence's cache for it costs little compared with many queries.
 *
 * @module
 */
import type { SimdAttention } from "../../kernels/attention_simd.ts";
import type { RowLayout } from "../../kernels/kv_write.ts";
import type { PackedStep } from "../../kernels/step_plan.ts";
import { CAUSAL_INPUTS, causalAttentionModel } from "../onnx/attention_model.ts";
import { type GraphSession, Tensor } from "../onnx/runtime/ort.ts";
import { writeModel } from "../onnx/file/proto_write.ts";
import type { SiteParams } from "./attention_params.ts";

/** Least queries of a sequence for which this is faster. */
const MIN_QUERIES = 32;

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
    const { shape: { heads, kvHeads, headSize }, write } = this.#layers[layer]!;
    const first = step.queryStarts[sequence]!;
    const numQueries = step.queryStarts[sequence + 1]! - first;
    const numKeys = step.kvLengths[sequence]!;
    const numPast = numKeys - numQueries;
    const table = sequence * step.maxBlocksPerSequence;
    const blocks = step.blockTables.subarray(table, table + step.maxBlocksPerSequence);

    const inputs = kernels.inputs(layer);
    const rows = (name: "q" | "k" | "v", numHeads: number) => {
      const width = numHeads * headSize;
      const buffer = this.#buffer(name, numQueries * width);
      copyRows(inputs[name], buffer, { ...write[name], width, first, numRows: numQueries });
      return new Tensor("float32", buffer, [1, numQueries, width]);
    };
    const pastLength = kvHeads * numPast * headSize;
    const past = {
      keys: this.#buffer("pastK", pastLength),
      values: this.#buffer("pastV", pastLength),
    };
    kernels.readCache(layer, { blocks, numKeys: numPast, ...past });
    const pastDims = [1, kvHeads, numPast, headSize];
    const session = await this.#sessionOf(layer);
    const dims = [1, numQueries, heads * headSize];
    // ONNX Runtime writes f32 into memory that nobody shares.
    const out = into instanceof Float32Array ? into : this.#buffer("out", into.length);
    await session.run({
      [CAUSAL_INPUTS.q]: rows("q", heads),
      [CAUSAL_INPUTS.k]: rows("k", kvHeads),
      [CAUSAL_INPUTS.v]: rows("v", kvHeads),
      [CAUSAL_INPUTS.pastK]: new Tensor("float32", past.keys, pastDims),
      [CAUSAL_INPUTS.pastV]: new Tensor("float32", past.values, pastDims),
      [CAUSAL_INPUTS.lastKey]: new Tensor("int32", Int32Array.of(numKeys - 1), [1]),
      [CAUSAL_INPUTS.numKeys]: new Tensor("int32", Int32Array.of(numKeys), [1]),
    }, { out: new Tensor("float32", out, dims) });
    if (out !== into) into.set(out);
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

  #sessionOf(layer: number): Promise<GraphSession> {
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
