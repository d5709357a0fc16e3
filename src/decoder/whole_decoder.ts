/**
 * The uncut decoder: the whole graph in ONNX Runtime, its KV cache kept on the device, one sequence at a time.
 * It serves what the graph cut does not understand.
 *
 * @module
 */
import type { Backend, TokenSampler } from "../backend/backend.ts";
import { presentName } from "../onnx/cut/cache_names.ts";
import type { ModelFiles } from "../onnx/file/external_data.ts";
import { type GraphSession, Tensor, type Tensors, type ValueInfo } from "../onnx/runtime/ort.ts";
import type { ModelProto } from "../onnx/file/proto.ts";
import { STEP_INPUTS, type StepTokens } from "./whole_inputs.ts";
import { sliceTokens, TokenEmbeddings } from "./token_embeddings.ts";
import {
  type Decoder,
  type DecoderLimits,
  rowsOf,
  type SampledToken,
  type StepBatch,
} from "./decoder.ts";

/** Tokens per block in the engine's bookkeeping; this cache itself is contiguous. */
const BLOCK_SIZE = 16;
/** A million tokens: the graph itself holds the cache. */
const MAX_BLOCKS = 65_536;
/** The graph gives logits for every token of a step; this bounds what they take. */
const MAX_LOGITS_BYTES = 128 * 2 ** 20;
const MAX_STEP_TOKENS = 512;

/** A graph that this decoder cannot drive. */
export class UnsupportedGraphError extends Error {
  override readonly name = "UnsupportedGraphError";
}

/** Sizes of a cache of keys and values: `[batch, kvHeads, tokens, headDim]`. */
export interface HeadSizes {
  readonly kvHeads: number | undefined;
  readonly headDim: number | undefined;
}

/** What to load. */
interface WholeDecoderOptions {
  readonly backend: Backend;
  readonly model: ModelProto;
  /** Where its weights are. */
  readonly files: ModelFiles;
  /** Tokens that the model was made for. */
  readonly contextLength: number;
  /** Most tokens of a sequence, if fewer. */
  readonly maxModelLength?: number | undefined;
  readonly vocabSize: number;
  /** Sizes of keys and values, for graphs that leave them open. */
  readonly headSizes?: HeadSizes | undefined;
  /** Opens the graph that turns token ids into embeddings; called when the decoder's graph takes those. */
  readonly openEmbedding?: (() => Promise<GraphSession>) | undefined;
}

export class WholeDecoder implements Decoder {
  readonly limits: DecoderLimits;
  readonly #sampler: TokenSampler;
  readonly #session: GraphSession;
  /** For a graph that takes embeddings. */
  readonly #embeddings: TokenEmbeddings | undefined;
  readonly #cacheInputs: readonly ValueInfo[];
  /** Keys, values and other state of the current sequence, by input name. */
  #cache: Record<string, Tensor> = {};

  private constructor(
    session: GraphSession,
    embeddings: TokenEmbeddings | undefined,
    options: WholeDecoderOptions,
  ) {
    this.#session = session;
    this.#embeddings = embeddings;
    this.#cacheInputs = session.inputs.filter(({ name }) => name.startsWith("past"))
      .map((input) => withHeadSizes(input, options.headSizes));
    this.#sampler = options.backend.openSampler({
      vocabSize: options.vocabSize,
      dtype: session.outputs.find(({ name }) => name === "logits")!.type as "float32" | "float16",
      maxRows: 1,
    });
    const rows = Math.floor(MAX_LOGITS_BYTES / (4 * options.vocabSize));
    const { contextLength: modelLength, maxModelLength = modelLength } = options;
    const contextLength = Math.min(modelLength, maxModelLength);
    this.limits = {
      contextLength,
      modelLength,
      lengthLimit: contextLength < modelLength ? "maxModelLength" : undefined,
      vocabSize: options.vocabSize,
      maxSequences: 1,
      maxBatchTokens: Math.max(1, Math.min(rows, MAX_STEP_TOKENS, contextLength)),
      numBlocks: Math.min(MAX_BLOCKS, Math.ceil(contextLength / BLOCK_SIZE)),
      blockSize: BLOCK_SIZE,
      sharesBlocks: false,
    };
  }

  /**
   * Loads the graph.
   *
   * @throws {UnsupportedGraphError} naming the inputs it does not know.
   */
  static async load(options: WholeDecoderOptions): Promise<WholeDecoder> {
    const { backend, model, files, openEmbedding } = options;
    const session = await backend.openModel(model, files);
    const takesEmbeddings = session.inputs.some(({ name }) => name === EMBEDDINGS);
    let embeddings: TokenEmbeddings | undefined;
    try {
      if (takesEmbeddings && openEmbedding !== undefined) {
        embeddings = await openEmbeddings(session, { backend, openEmbedding });
      }
      requireKnown(session, embeddings?.outputs ?? []);
      return new WholeDecoder(session, embeddings, options);
    } catch (error) {
      await embeddings?.dispose();
      await session.release();
      throw error;
    }
  }

  async run(batch: StepBatch): Promise<SampledToken[]> {
    const { numTokens } = batch;
    if (batch.positions[0] === 0) this.#startSequence();
    // One row a step: a prompt that is scored comes token by token.
    const [sample] = batch.sequences.flatMap(rowsOf);
    if (sample === undefined) {
      (await this.#compute(batch, 0, numTokens)).dispose();
      return [];
    }
    // The last token runs by itself: the graph then gives one row of logits, where the sampler wants it.
    if (numTokens > 1) (await this.#compute(batch, 0, numTokens - 1)).dispose();
    const logits = await this.#compute(batch, numTokens - 1, numTokens);
    try {
      return await this.#sampler.sample([{ logits, rows: [sample] }]);
    } finally {
      logits.dispose();
    }
  }

  async dispose(): Promise<void> {
    this.#disposeCache();
    await this.#sampler.dispose();
    await this.#embeddings?.dispose();
    await this.#session.release();
  }

  /** Runs the step's tokens `start` to `end`, and returns their logits. */
  async #compute(batch: StepBatch, start: number, end: number): Promise<Tensor> {
    const tokens = { batch, start, end };
    const feeds: Record<string, Tensor> = { ...this.#cache };
    for (const input of this.#session.inputs) {
      const make = STEP_INPUTS.get(input.name);
      if (make) feeds[input.name] = make(tokens, input);
    }
    const embedded = await this.#embed(tokens);
    try {
      const outputs = await this.#session.run({ ...feeds, ...embedded });
      this.#keepCache(outputs);
      return outputs["logits"] as Tensor;
    } finally {
      for (const tensor of Object.values(embedded)) tensor.dispose();
    }
  }

  /** The embeddings' graph's outputs for the tokens, which the decoder takes. */
  async #embed({ batch, start, end }: StepTokens): Promise<Tensors> {
    if (this.#embeddings === undefined) return {};
    const { tokenIds: ids, embeddings: spans = [], completionPositions } = batch;
    const tokens = sliceTokens({ ids, spans, completionPositions }, start, end);
    return await this.#embeddings.embed(tokens);
  }

  #startSequence(): void {
    this.#disposeCache();
    this.#cache = Object.fromEntries(
      this.#cacheInputs.map((input) => [input.name, emptyState(input)]),
    );
  }

  #keepCache(outputs: Tensors): void {
    this.#disposeCache();
    this.#cache = Object.fromEntries(this.#cacheInputs.map(({ name }) => [
      name,
      outputs[presentName(name)] as Tensor,
    ]));
  }

  #disposeCache(): void {
    for (const tensor of Object.values(this.#cache)) tensor.dispose();
    this.#cache = {};
  }
}

/** Name under which a decoder's graph takes embeddings, and their own graph gives them. */
const EMBEDDINGS = "inputs_embeds";

/** @throws {UnsupportedGraphError} when the embeddings' graph lacks them. */
async function openEmbeddings(
  decoder: GraphSession,
  { backend, openEmbedding }: { backend: Backend; openEmbedding: () => Promise<GraphSession> },
): Promise<TokenEmbeddings> {
  const session = await openEmbedding();
  const given = session.outputs.filter(({ name, type }) =>
    decoder.inputs.some((input) => input.name === name && input.type === type)
  );
  if (!given.some(({ name }) => name === EMBEDDINGS)) {
    const { name, type } = session.outputs[0]!;
    await session.release();
    throw new UnsupportedGraphError(
      `The embeddings' graph gives "${name}" in ${type}, which the decoder does not take as ${EMBEDDINGS}.`,
    );
  }
  // Some decoders take more of each token, such as the inputs of its layers.
  const more = given.filter(({ name }) => name !== EMBEDDINGS).map(({ name }) => name);
  return new TokenEmbeddings({ backend, session, outputs: [EMBEDDINGS, ...more] });
}

/** @throws {UnsupportedGraphError} naming the unknown inputs. */
function requireKnown(session: GraphSession, embedded: readonly string[]): void {
  const unknown = session.inputs.filter(({ name }) =>
    !name.startsWith("past") && !STEP_INPUTS.has(name) && !embedded.includes(name)
  );
  const cacheless = session.outputs.some(({ name }) => name === "logits")
    ? []
    : ["it has no output named logits"];
  const faults = [...unknown.map(({ name }) => `its input "${name}" is not known`), ...cacheless];
  if (faults.length === 0) return;
  throw new UnsupportedGraphError(`The decoder graph cannot be run: ${faults.join(", ")}.`);
}

/** Names of keys and values, unlike those of other state. */
const KEYS_OR_VALUES = /\.(key|value)$|^past_(key|value)s?[._]\d+$/;

/**
 * A cache with sizes in the place of symbols for heads (`kv_cache_dim`).
 *
 * @throws {UnsupportedGraphError} when such a size is not known.
 */
function withHeadSizes(input: ValueInfo, sizes: HeadSizes | undefined): ValueInfo {
  const { name, shape } = input;
  if (shape.length !== 4 || !KEYS_OR_VALUES.test(name)) return input;
  const [batch, heads, tokens, dim] = shape as [Size, Size, Size, Size];
  const known = (symbol: Size, size: number | undefined) => {
    if (typeof symbol === "number") return symbol;
    if (size !== undefined) return size;
    throw new UnsupportedGraphError(
      `The cache input "${name}" leaves its size "${symbol}" open, and config.json does not give it.`,
    );
  };
  return {
    ...input,
    shape: [batch, known(heads, sizes?.kvHeads), tokens, known(dim, sizes?.headDim)],
  };
}

type Size = ValueInfo["shape"][number];

/** State of a sequence that has not begun: no keys yet, other state zero. */
function emptyState({ name, type, shape }: ValueInfo): Tensor {
  const dims = shape.map((size) =>
    typeof size === "number" ? size : size.includes("batch") ? 1 : 0
  );
  const count = dims.reduce((product, size) => product * size, 1);
  if (type === "float32") return new Tensor(type, new Float32Array(count), dims);
  if (type === "float16") return new Tensor(type, new Uint16Array(count), dims);
  throw new UnsupportedGraphError(
    `The cache input "${name}" has element type ${type}; wanted float32 or float16.`,
  );
}
