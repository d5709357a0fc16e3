/**
 * A decoder that runs the whole graph in ONNX Runtime, one sequence at a time, with its KV cache on the device. It is
 * for graphs that cannot be cut.
 *
 * @module
 */
import type { Backend, TokenSampler } from "../device/backend.ts";
import { toPresentName } from "../graph/cut/merged_decoder.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import type { GraphSession, Tensor, Tensors, ValueInfo } from "../device/ort/ort.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import {
  type HeadSizes,
  makeEmptyState,
  makeStepInput,
  STEP_INPUTS,
  type StepTokens,
  UnsupportedGraphError,
  withHeadSizes,
} from "./step_inputs.ts";
import {
  type Decoder,
  type DecoderLimits,
  EncoderError,
  listRows,
  type SampledToken,
  type StepBatch,
} from "./decoder.ts";
import type { LogitsProcessor } from "./paged_decoder.ts";
import { sliceTokens, TokenEmbeddings } from "./token_embeddings.ts";

/** Tokens per block for the engine's bookkeeping. The cache itself is contiguous. */
const BLOCK_SIZE = 16;
/** Enough for a million tokens, since the graph itself holds the cache. */
const MAX_BLOCKS = 65_536;
/** Maximum number of bytes of logits, which the graph computes for every token of a step. */
const MAX_LOGITS_BYTES = 128 * 2 ** 20;
const MAX_STEP_TOKENS = 512;

/** Computes, for each encoder input, the inputs of the decoder's graph that depend on it. */
export interface EncodedInputs {
  /** Names of the graph's inputs that this object computes. */
  readonly names: readonly string[];
  /**
   * Computes these inputs for an encoder input. This object owns the results, which are valid until this is called for
   * another encoder input.
   */
  feeds(input: object): Promise<Tensors>;
  dispose(): Promise<void>;
}

/** The graph to load, and options. */
interface WholeDecoderOptions {
  readonly backend: Backend;
  readonly model: ModelProto;
  /** Files with the weights. */
  readonly files: ModelFiles;
  /** Context length that the model was trained for. */
  readonly contextLength: number;
  /** Maximum number of tokens of a sequence, if that is fewer. */
  readonly maxModelLength?: number | undefined;
  readonly vocabSize: number;
  /** Sizes of keys and values, for graphs that do not fix them. */
  readonly headSizes?: HeadSizes | undefined;
  /** Opens the graph that turns token ids into embeddings. Called if the decoder's graph takes embeddings. */
  readonly openEmbedding?: (() => Promise<GraphSession>) | undefined;
  /**
   * Inputs for a graph that attends to an encoder, which then takes one token at a time. Owned by the decoder once it
   * is loaded.
   */
  readonly encoded?: EncodedInputs | undefined;
  readonly processLogits?: LogitsProcessor | undefined;
}

export class WholeDecoder implements Decoder {
  readonly limits: DecoderLimits;
  readonly logitsDtype: "float32" | "float16";
  readonly #sampler: TokenSampler;
  readonly #encoded: EncodedInputs | undefined;
  readonly #processLogits: LogitsProcessor | undefined;
  readonly #session: GraphSession;
  /** Embeddings, for a graph that takes them. */
  readonly #embeddings: TokenEmbeddings | undefined;
  readonly #cacheInputs: readonly ValueInfo[];
  /** Keys, values and other state of the current sequence, by input name. */
  #cache: Record<string, Tensor> = {};
  /** Encoder output that the current sequence attends to, by input name. */
  #given: Tensors = {};

  private constructor(
    session: GraphSession,
    embeddings: TokenEmbeddings | undefined,
    options: WholeDecoderOptions,
  ) {
    const { encoded } = options;
    this.#session = session;
    this.#embeddings = embeddings;
    this.#encoded = encoded;
    this.#processLogits = options.processLogits;
    this.#cacheInputs = session.inputs
      .filter(({ name }) => name.startsWith("past") && !encoded?.names.includes(name))
      .map((input) => withHeadSizes(input, options.headSizes));
    this.logitsDtype = session.outputs.find(({ name }) => name === "logits")!.type as "float32";
    this.#sampler = options.backend.openSampler({
      vocabSize: options.vocabSize,
      dtype: this.logitsDtype,
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
      maxBatchTokens: encoded ? 1 : Math.max(1, Math.min(rows, MAX_STEP_TOKENS, contextLength)),
      numBlocks: Math.min(MAX_BLOCKS, Math.ceil(contextLength / BLOCK_SIZE)),
      blockSize: BLOCK_SIZE,
      sharesBlocks: false,
    };
  }

  /** Loads the graph. @throws {UnsupportedGraphError} naming its unknown inputs. */
  static async load(options: WholeDecoderOptions): Promise<WholeDecoder> {
    const { backend, model, files, openEmbedding, encoded } = options;
    const session = await backend.openModel(model, files);
    const takesEmbeddings = session.inputs.some(({ name }) => name === EMBEDDINGS);
    let embeddings: TokenEmbeddings | undefined;
    try {
      if (takesEmbeddings && openEmbedding !== undefined) {
        embeddings = await openEmbeddings(session, { backend, openEmbedding });
      }
      requireKnown(session, [...embeddings?.outputs ?? [], ...encoded?.names ?? []]);
      const decoder = new WholeDecoder(session, embeddings, options);
      // Refuses caches of unsupported types now, rather than at the first request.
      for (const input of decoder.#cacheInputs) makeEmptyState(input).dispose();
      return decoder;
    } catch (error) {
      await embeddings?.dispose();
      await session.release();
      throw error;
    }
  }

  async run(batch: StepBatch): Promise<SampledToken[]> {
    const { numTokens } = batch;
    if (batch.positions[0] === 0) await this.#startSequence(batch);
    // A step returns one row, so a prompt that is scored runs token by token.
    const [sample] = batch.sequences.flatMap(listRows);
    if (sample === undefined) {
      (await this.#compute(batch, 0, numTokens)).dispose();
      return [];
    }
    // The last token runs separately: the graph then returns a single row of logits, as the sampler expects.
    if (numTokens > 1) (await this.#compute(batch, 0, numTokens - 1)).dispose();
    const logits = await this.#compute(batch, numTokens - 1, numTokens);
    try {
      this.#processLogits?.(logits, [sample]);
      return await this.#sampler.sample([{ logits, rows: [sample] }]);
    } finally {
      logits.dispose();
    }
  }

  async dispose(): Promise<void> {
    this.#disposeCache();
    await this.#sampler.dispose();
    await this.#embeddings?.dispose();
    await this.#encoded?.dispose();
    await this.#session.release();
  }

  /** Runs the step's tokens `start` to `end`, and returns their logits. */
  async #compute(batch: StepBatch, start: number, end: number): Promise<Tensor> {
    const tokens = { batch, start, end };
    const feeds: Record<string, Tensor> = { ...this.#cache, ...this.#given };
    for (const input of this.#session.inputs) {
      const made = makeStepInput(tokens, input);
      if (made) feeds[input.name] = made;
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

  /** Computes, for the tokens, the outputs of the embeddings' graph, which are inputs of the decoder. */
  async #embed({ batch, start, end }: StepTokens): Promise<Tensors> {
    if (this.#embeddings === undefined) return {};
    const { tokenIds: ids, embeddings: spans = [], completionPositions } = batch;
    const tokens = sliceTokens({ ids, spans, completionPositions }, start, end);
    return await this.#embeddings.embed(tokens);
  }

  async #startSequence({ sequences: [first] }: StepBatch): Promise<void> {
    this.#disposeCache();
    const { encoderInput, sequenceId } = first!;
    if (this.#encoded !== undefined) {
      try {
        this.#given = await this.#encoded.feeds(encoderInput!);
      } catch (error) {
        throw new EncoderError([sequenceId], error);
      }
    }
    this.#cache = Object.fromEntries(
      this.#cacheInputs.map((input) => [input.name, makeEmptyState(input)]),
    );
  }

  #keepCache(outputs: Tensors): void {
    this.#disposeCache();
    this.#cache = Object.fromEntries(this.#cacheInputs.map(({ name }) => [
      name,
      outputs[toPresentName(name)] as Tensor,
    ]));
  }

  #disposeCache(): void {
    for (const tensor of Object.values(this.#cache)) tensor.dispose();
    this.#cache = {};
  }
}

/** Name of the embeddings in the decoder's inputs and in the outputs of the embeddings' graph. */
const EMBEDDINGS = "inputs_embeds";

/** Opens the embeddings' graph. @throws {UnsupportedGraphError} when it has no fitting output. */
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
  // Some decoders need more for each token, such as the inputs of their layers.
  const more = given.filter(({ name }) => name !== EMBEDDINGS).map(({ name }) => name);
  return new TokenEmbeddings({ backend, session, outputs: [EMBEDDINGS, ...more] });
}

/** Checks the graph's inputs and outputs. @throws {UnsupportedGraphError} naming those that are unknown or missing. */
function requireKnown(session: GraphSession, embedded: readonly string[]): void {
  const unknown = session.inputs.filter(({ name }) =>
    !name.startsWith("past") && !STEP_INPUTS.has(name) && !embedded.includes(name)
  );
  const cacheless = session.outputs.some(({ name }) => name === "logits")
    ? []
    : ["it has no output named logits"];
  const outputs = new Set(session.outputs.map(({ name }) => name));
  const unreturned = session.inputs.map(({ name }) => name).filter((name) =>
    name.startsWith("past") && !embedded.includes(name) && !outputs.has(toPresentName(name))
  );
  const faults = [
    ...unknown.map(({ name }) => `its input "${name}" is not known`),
    ...cacheless,
    ...unreturned.slice(0, 1).map((name) =>
      `it has no output "${toPresentName(name)}" for the next token's "${name}"`
    ),
  ];
  if (faults.length === 0) return;
  throw new UnsupportedGraphError(`The decoder graph cannot be run: ${faults.join(", ")}.`);
}
