/**
 * The uncut decoder of an encoder-decoder model: the whole graph in ONNX Runtime, one sequence at a time. It serves what
 * the graph cut does not understand.
 *
 * @module
 */
import type { Backend, TokenSampler } from "../backend/backend.ts";
import { disposeTensors, type GraphSession, Tensor } from "../onnx/runtime/ort.ts";
import type { ModelProto } from "../onnx/file/proto.ts";
import type { Decoder, DecoderLimits, SampledToken, StepBatch } from "./decoder.ts";
import { EncoderError } from "./embedding_span.ts";
import type { InputEncoder } from "./encoder_decoder.ts";
import { type DecoderState, MergedDecoder, type MergedDecoderOptions } from "./merged_decoder.ts";
import type { LogitsProcessor } from "./paged_decoder.ts";

/** Tokens per block in the engine's bookkeeping; this cache itself is contiguous. */
const BLOCK_SIZE = 16;

/** How to open it. */
interface WholeEncoderDecoderOptions<Input extends object> extends MergedDecoderOptions {
  readonly encoder: InputEncoder<Input>;
  /** Most tokens of a sequence. */
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Opens the graph that turns token ids into embeddings, for a decoder that takes those. */
  readonly openEmbedding?: (() => Promise<GraphSession>) | undefined;
  readonly processLogits?: LogitsProcessor | undefined;
}

interface Parts<Input extends object> extends WholeEncoderDecoderOptions<Input> {
  readonly decoder: MergedDecoder;
  readonly embedding: GraphSession | undefined;
  readonly sampler: TokenSampler;
}

export class WholeEncoderDecoder<Input extends object> implements Decoder {
  readonly limits: DecoderLimits;
  readonly #parts: Parts<Input>;
  /** The current sequence's encoder input, and its state before its first token. */
  #start: { readonly input: Input; readonly state: DecoderState } | undefined;
  /** Of the current sequence. */
  #state: DecoderState | undefined;

  private constructor(parts: Parts<Input>) {
    const { contextLength, vocabSize } = parts;
    this.#parts = parts;
    this.limits = {
      contextLength,
      vocabSize,
      maxSequences: 1,
      maxBatchTokens: BLOCK_SIZE,
      numBlocks: Math.ceil(contextLength / BLOCK_SIZE),
      blockSize: BLOCK_SIZE,
      sharesBlocks: false,
    };
  }

  /** @throws {StartupError} when the graph is not as Optimum exports it. */
  static async open<Input extends object>(
    model: ModelProto,
    options: WholeEncoderDecoderOptions<Input>,
  ): Promise<WholeEncoderDecoder<Input>> {
    const { vocabSize, openEmbedding } = options;
    const decoder = await MergedDecoder.open(model, options);
    const takesEmbeddings = decoder.tokenInput === "inputs_embeds";
    const sampler = openSampler(options.backend, { vocabSize, dtype: decoder.logitsDtype });
    const embedding = takesEmbeddings ? await openEmbedding?.() : undefined;
    return new WholeEncoderDecoder({ ...options, decoder, embedding, sampler });
  }

  get logitsDtype(): "float32" | "float16" {
    return this.#parts.decoder.logitsDtype;
  }

  async run({ sequences, tokenIds, positions, numTokens }: StepBatch): Promise<SampledToken[]> {
    const [{ sequenceId, encoderInput, sample } = { sequenceId: 0 }] = sequences;
    if (positions[0] === 0) {
      this.#freeState();
      try {
        this.#state = await this.#begin(encoderInput as Input);
      } catch (error) {
        throw new EncoderError([sequenceId], error);
      }
    }
    let logits: Tensor | undefined;
    for (const tokenId of tokenIds.subarray(0, numTokens)) {
      logits?.dispose();
      logits = await this.#step(tokenId);
    }
    try {
      if (sample === undefined) return [];
      this.#parts.processLogits?.(logits!, [sample]);
      return await this.#parts.sampler.sample([{ logits: logits!, rows: [sample] }]);
    } finally {
      logits!.dispose();
    }
  }

  async dispose(): Promise<void> {
    this.#freeStart();
    await this.#parts.sampler.dispose();
    await this.#parts.embedding?.release();
    await this.#parts.decoder.release();
  }

  /** The state before the first token; the previous sequence's encoder input is not encoded again. */
  async #begin(input: Input): Promise<DecoderState> {
    if (this.#start?.input !== input) {
      this.#freeStart();
      const { encoder, decoder } = this.#parts;
      this.#start = { input, state: await decoder.begin(await encoder.encode([input])) };
    }
    return this.#start.state;
  }

  async #step(tokenId: number): Promise<Tensor> {
    const { decoder, embedding } = this.#parts;
    const ids = new Tensor("int64", BigInt64Array.of(BigInt(tokenId)), [1, 1]);
    const token = embedding === undefined
      ? ids
      : (await embedding.run({ input_ids: ids }))["inputs_embeds"]!;
    try {
      const { logits, state } = await decoder.step(this.#state!, token);
      this.#freeState();
      this.#state = state;
      return logits;
    } finally {
      if (embedding !== undefined) token.dispose();
    }
  }

  #freeState(): void {
    if (this.#state !== undefined && this.#state !== this.#start?.state) {
      disposeTensors(this.#state.self);
    }
    this.#state = undefined;
  }

  #freeStart(): void {
    this.#freeState();
    if (this.#start === undefined) return;
    disposeTensors(this.#start.state.self);
    disposeTensors(this.#start.state.cross);
    this.#start = undefined;
  }
}

function openSampler(
  backend: Backend,
  options: { readonly vocabSize: number; readonly dtype: "float32" | "float16" },
): TokenSampler {
  return backend.openSampler({ ...options, maxRows: 1 });
}
