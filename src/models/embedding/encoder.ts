/**
 * Encoders: bidirectional models without a cache. Texts of several lengths run in one padded batch, and one row per
 * text is read back.
 *
 * @module
 */
import type { Backend, Storage } from "../../backend/backend.ts";
import type { FolderFiles } from "../../onnx/file/external_data.ts";
import type { ModelProto } from "../../onnx/file/proto.ts";
import { type GraphSession, Tensor, type Tensors } from "../../onnx/runtime/ort.ts";
import { requireKnownInputs } from "../graph_ports.ts";
import type { EncodedText } from "./encoder_tokenizer.ts";
import { fillPooling, POOLING_INPUT, type PoolingMode } from "./pooling.ts";

/** A graph that gives a row per text. */
export interface EncoderGraph {
  readonly model: ModelProto;
  /** Its one output: f32, one row per text. */
  readonly output: string;
  /** The pooling added to it, if any. */
  readonly poolingModes?: readonly PoolingMode[] | undefined;
}

interface EncoderParts extends EncoderGraph {
  readonly backend: Backend;
  readonly session: GraphSession;
  readonly padTokenId: number;
}

/** Runs batches of texts, one at a time. */
export interface BatchEncoder {
  /** Most texts in one batch. */
  readonly maxTexts: number;
  /** Most tokens in one batch, by the memory. */
  readonly maxTokens?: number | undefined;
  /** Whether texts are padded to the longest of their batch. */
  readonly pads: boolean;
  /** Elements of a row. */
  readonly width: number;
  /**
   * Runs one batch.
   *
   * @param texts 1 to `maxTexts`, each of at least one token.
   * @returns f32 `[texts, width]`, the caller's.
   */
  run(texts: readonly EncodedText[]): Promise<Float32Array>;
  dispose(): Promise<void>;
}

export const MAX_TEXTS = 256;

/** Inputs with a value per token. */
const TOKEN_INPUTS = new Set(["input_ids", "attention_mask", "token_type_ids", "position_ids"]);

export class Encoder implements BatchEncoder {
  readonly maxTexts = MAX_TEXTS;
  readonly pads = true;
  readonly width: number;
  readonly #parts: EncoderParts;
  readonly #tokenInputs: readonly string[];
  /** Output memory; `undefined` if ONNX Runtime allocates its outputs. */
  readonly #rows: Storage | undefined;

  private constructor(parts: EncoderParts, width: number) {
    this.#parts = parts;
    this.width = width;
    this.#tokenInputs = tokenInputsOf(parts.session);
    this.#rows = parts.backend.allocate(MAX_TEXTS * width * Float32Array.BYTES_PER_ELEMENT);
  }

  /**
   * Opens the graph, and runs it once, which determines the width of its rows and compiles its kernels.
   *
   * @throws {StartupError} when the graph has unknown inputs.
   */
  static async open(
    graph: EncoderGraph,
    { backend, files, padTokenId }: {
      readonly backend: Backend;
      readonly files: FolderFiles;
      readonly padTokenId: number;
    },
  ): Promise<Encoder> {
    const { output } = graph;
    const session = await backend.openModel(graph.model, files);
    const isKnown = (name: string) => TOKEN_INPUTS.has(name) || name === POOLING_INPUT;
    requireKnownInputs(session, { isKnown, of: "The graph" });
    const parts = { ...graph, backend, session, padTokenId };
    const probe = { ids: [parts.padTokenId, parts.padTokenId] };
    const rows = (await session.run(makeFeeds(parts, tokenInputsOf(session), [probe])))[output]!;
    const width = rows.dims.reduce((product, size) => product * size, 1);
    rows.dispose();
    return new Encoder(parts, width);
  }

  async run(texts: readonly EncodedText[]): Promise<Float32Array> {
    const { backend, session, output } = this.#parts;
    const feeds = makeFeeds(this.#parts, this.#tokenInputs, texts);
    const ownRows = this.#rows?.tensor("float32", this.#rowDims(texts.length));
    const results = await session.run(feeds, ownRows && { [output]: ownRows });
    const rows = results[output]!;
    try {
      return await backend.read(rows);
    } finally {
      if (ownRows === undefined) rows.dispose();
    }
  }

  async dispose(): Promise<void> {
    this.#rows?.dispose();
    await this.#parts.session.release();
  }

  #rowDims(numTexts: number): number[] {
    const { poolingModes, session } = this.#parts;
    if (poolingModes !== undefined) {
      return [numTexts, poolingModes.length, this.width / poolingModes.length];
    }
    return session.outputs[0]!.shape.length === 1 ? [numTexts] : [numTexts, this.width];
  }
}

function tokenInputsOf(session: GraphSession): string[] {
  return session.inputs.map(({ name }) => name).filter((name) => TOKEN_INPUTS.has(name));
}

function makeFeeds(
  { padTokenId, poolingModes }: EncoderParts,
  tokenInputs: readonly string[],
  texts: readonly EncodedText[],
): Tensors {
  const length = texts.reduce((longest, { ids }) => Math.max(longest, ids.length), 0);
  const shape = [texts.length, length];
  const feeds: Record<string, Tensor> = {};
  for (const name of tokenInputs) {
    const values = new BigInt64Array(texts.length * length);
    if (name === "input_ids") values.fill(BigInt(padTokenId));
    texts.forEach((text, row) => {
      fillTokens(name, text, values.subarray(row * length, (row + 1) * length));
    });
    feeds[name] = new Tensor("int64", values, shape);
  }
  if (poolingModes !== undefined) feeds[POOLING_INPUT] = poolingFeed(poolingModes, texts, length);
  return feeds;
}

/** Fills a text's part of a token input; padding is masked. */
export function fillTokens(
  name: string,
  { ids, typeOneFrom }: EncodedText,
  row: BigInt64Array,
): void {
  switch (name) {
    case "input_ids":
      ids.forEach((id, token) => row[token] = BigInt(id));
      return;
    case "attention_mask":
      row.fill(1n, 0, ids.length);
      return;
    case "token_type_ids":
      if (typeOneFrom !== undefined) row.fill(1n, typeOneFrom, ids.length);
      return;
    case "position_ids":
      for (let token = 0; token < row.length; token++) row[token] = BigInt(token);
  }
}

function poolingFeed(
  modes: readonly PoolingMode[],
  texts: readonly EncodedText[],
  length: number,
): Tensor {
  const perText = modes.length * length;
  const values = new Float32Array(texts.length * perText);
  texts.forEach(({ ids }, row) => {
    fillPooling(modes, values.subarray(row * perText, (row + 1) * perText), ids.length);
  });
  // The bias for `max` is stored along the tokens, weights across them.
  const shape = modes[0] === "max"
    ? [texts.length, length, 1]
    : [texts.length, modes.length, length];
  return new Tensor("float32", values, shape);
}
