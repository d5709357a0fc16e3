/**
 * Encoders whose graph runs uncut: on texts padded to the length of the longest in the batch, or, for static
 * embeddings, on the concatenated tokens of all texts.
 *
 * @module
 */
import type { Backend, Storage } from "../../device/backend.ts";
import { countElements } from "../../graph/file/tensor.ts";
import type { FolderFiles } from "../../graph/file/external_data.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { type GraphSession, Tensor, type Tensors } from "../../device/ort/ort.ts";
import { requireKnownInputs } from "../folder/graph_file.ts";
import type { EncodedText } from "./encoder_tokenizer.ts";
import {
  fillPooling,
  fillPoolingBias,
  POOLED_OUTPUT,
  POOLING_BIAS,
  POOLING_INPUT,
  type PoolingMode,
} from "./pooling.ts";
import type { Encoder } from "./text_batcher.ts";

interface PaddedEncoderParts {
  readonly backend: Backend;
  readonly session: GraphSession;
  readonly padTokenId: number;
  /** The pooling whose weights are an input of the graph; absent if the graph has no such input. */
  readonly pooling: readonly PoolingMode[] | undefined;
}

export const MAX_TEXTS = 256;

/** Inputs with one row per media placeholder, f32 `[rows, size]`. As texts have no media, these inputs have no rows. */
const MEDIA_INPUTS = new Set(["image_features", "video_features", "audio_features"]);

/** Inputs with one value per token. */
const TOKEN_INPUTS = new Set(["input_ids", "attention_mask", "token_type_ids", "position_ids"]);

export class PaddedEncoder implements Encoder {
  readonly maxTexts = MAX_TEXTS;
  readonly pads = true;
  readonly width: number;
  readonly #parts: PaddedEncoderParts;
  /** Output memory; `undefined` if ONNX Runtime allocates its outputs. */
  readonly #rows: Storage | undefined;

  private constructor(parts: PaddedEncoderParts, width: number) {
    this.#parts = parts;
    this.width = width;
    this.#rows = parts.backend.allocate(MAX_TEXTS * width * Float32Array.BYTES_PER_ELEMENT);
  }

  /**
   * Opens a graph with {@linkcode POOLED_OUTPUT} and runs it once, which shows the width of its rows and compiles its
   * kernels.
   *
   * @param options.pooling the graph's pooling, whose weights are fed to the graph if it has an input for them.
   * @throws {StartupError} when the graph has unknown inputs.
   */
  static async open(
    graph: ModelProto,
    { backend, files, padTokenId, pooling }: Omit<PaddedEncoderParts, "session"> & {
      readonly files: FolderFiles;
    },
  ): Promise<PaddedEncoder> {
    // Otherwise ONNX Runtime would keep the memory of the largest batch, which may be hundreds of times the usual.
    const session = await backend.openModel(graph, files, { keepsMemory: false });
    const isPooling = (name: string) => name === POOLING_INPUT || name === POOLING_BIAS;
    const isKnown = (name: string) =>
      TOKEN_INPUTS.has(name) || MEDIA_INPUTS.has(name) || isPooling(name);
    requireKnownInputs(session, { isKnown, of: "The graph" });
    const takesWeights = session.inputs.some(({ name }) => isPooling(name));
    const parts = { backend, session, padTokenId, pooling: takesWeights ? pooling : undefined };
    const feeds = makeFeeds(parts, [{ ids: [padTokenId, padTokenId] }]);
    const rows = (await session.run(feeds))[POOLED_OUTPUT]!;
    const width = countElements(rows.dims);
    rows.dispose();
    return new PaddedEncoder(parts, width);
  }

  async run(texts: readonly EncodedText[]): Promise<Float32Array> {
    const { backend, session } = this.#parts;
    const feeds = makeFeeds(this.#parts, texts);
    const ownRows = this.#rows?.tensor("float32", this.#rowDims(texts.length));
    const results = await session.run(feeds, ownRows && { [POOLED_OUTPUT]: ownRows });
    const rows = results[POOLED_OUTPUT]!;
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
    const { pooling, session } = this.#parts;
    if (pooling !== undefined) return [numTexts, pooling.length, this.width / pooling.length];
    return session.outputs[0]!.shape.length === 1 ? [numTexts] : [numTexts, this.width];
  }
}

function makeFeeds(
  { session, padTokenId, pooling }: PaddedEncoderParts,
  texts: readonly EncodedText[],
): Tensors {
  const length = Math.max(...texts.map(({ ids }) => ids.length));
  const feeds: Record<string, Tensor> = {};
  for (const { name, type, shape } of session.inputs) {
    if (MEDIA_INPUTS.has(name)) feeds[name] = makeEmptyRows(type, shape);
    if (!TOKEN_INPUTS.has(name)) continue;
    const values = new BigInt64Array(texts.length * length);
    if (name === "input_ids") values.fill(BigInt(padTokenId));
    texts.forEach((text, row) => {
      fillTokens(name, text, values.subarray(row * length, (row + 1) * length));
    });
    feeds[name] = new Tensor("int64", values, [texts.length, length]);
  }
  if (pooling !== undefined) Object.assign(feeds, makePoolingFeeds(pooling, texts, length));
  return feeds;
}

/** Makes an input without rows, of the declared width. */
function makeEmptyRows(
  type: string,
  shape: readonly (number | string | undefined)[],
): Tensor {
  const size = shape.at(-1);
  const dims = [0, typeof size === "number" ? size : 0];
  return type === "float16"
    ? new Tensor("float16", new Uint16Array(0), dims)
    : new Tensor("float32", new Float32Array(0), dims);
}

/** Fills in one text's row of a token input. Padding is masked. */
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

function makePoolingFeeds(
  modes: readonly PoolingMode[],
  texts: readonly EncodedText[],
  length: number,
): Record<string, Tensor> {
  const numSums = modes.filter((mode) => mode !== "max").length;
  const weights = new Float32Array(texts.length * numSums * length);
  const bias = new Float32Array(numSums < modes.length ? texts.length * length : 0);
  const part = (values: Float32Array, text: number) => {
    const size = values.length / texts.length;
    return values.subarray(text * size, (text + 1) * size);
  };
  texts.forEach(({ ids, countsFrom }, index) => {
    const text = { numTokens: ids.length, from: countsFrom };
    if (numSums > 0) fillPooling(modes, part(weights, index), text);
    if (bias.length > 0) fillPoolingBias(part(bias, index), text);
  });
  return {
    ...numSums > 0 &&
      { [POOLING_INPUT]: new Tensor("float32", weights, [texts.length, numSums, length]) },
    ...bias.length > 0 &&
      { [POOLING_BIAS]: new Tensor("float32", bias, [texts.length, length, 1]) },
  };
}

const TOKENS = "input_ids";
const OFFSETS = "offsets";

/** Maximum number of tokens of a batch and of a text, as the graph gathers a row for each token. */
export const MAX_BAG_TOKENS = 65_536;

/** Possible names of the output that has one row per text. */
export const BAG_OUTPUTS = ["embeddings", "sentence_embedding"];

/** Whether a graph takes concatenated tokens and the offsets of texts. */
export function isBagGraph({ graph }: ModelProto): boolean {
  return graph.inputs.some(({ name }) => name === OFFSETS);
}

/**
 * Runs batches of texts on static embeddings (model2vec, potion), in which a text's vector is the mean of its tokens'
 * rows in a table. As in PyTorch's EmbeddingBag, the graph has two inputs: the tokens of all texts, concatenated, and
 * the offset of each text's first token. The encoder owns the session.
 *
 * @see https://github.com/MinishLab/model2vec
 */
export class BagEncoder implements Encoder {
  readonly maxTexts = MAX_TEXTS;
  readonly maxTokens = MAX_BAG_TOKENS;
  readonly pads = false;
  readonly width: number;
  readonly #backend: Backend;
  readonly #session: GraphSession;

  private constructor(backend: Backend, session: GraphSession, width: number) {
    this.#backend = backend;
    this.#session = session;
    this.width = width;
  }

  /**
   * Opens a graph with {@linkcode POOLED_OUTPUT} and runs it once, which shows the width of its rows.
   *
   * @throws {StartupError} when the graph has unknown inputs.
   */
  static async open(
    graph: ModelProto,
    { backend, files }: { readonly backend: Backend; readonly files: FolderFiles },
  ): Promise<BagEncoder> {
    const session = await backend.openModel(graph, files, { keepsMemory: false });
    requireKnownInputs(session, {
      isKnown: (name) => name === TOKENS || name === OFFSETS,
      of: "The graph",
    });
    const rows = (await session.run(makeBagFeeds([{ ids: [0] }])))[POOLED_OUTPUT]!;
    const width = rows.dims.at(-1)!;
    rows.dispose();
    return new BagEncoder(backend, session, width);
  }

  async run(texts: readonly EncodedText[]): Promise<Float32Array> {
    const rows = (await this.#session.run(makeBagFeeds(texts)))[POOLED_OUTPUT]!;
    try {
      return await this.#backend.read(rows);
    } finally {
      rows.dispose();
    }
  }

  async dispose(): Promise<void> {
    await this.#session.release();
  }
}

function makeBagFeeds(texts: readonly EncodedText[]): Record<string, Tensor> {
  const ids = texts.flatMap((text) => text.ids);
  const offsets = new BigInt64Array(texts.length);
  let start = 0;
  texts.forEach((text, index) => {
    offsets[index] = BigInt(start);
    start += text.ids.length;
  });
  return {
    [TOKENS]: new Tensor("int64", BigInt64Array.from(ids, BigInt), [ids.length]),
    [OFFSETS]: new Tensor("int64", offsets, [texts.length]),
  };
}
