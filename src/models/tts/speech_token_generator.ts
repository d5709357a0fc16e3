/**
 * Chatterbox's language model: from a voice and a text's tokens it generates speech tokens. Each text is a request of the
 * engine, so that texts that are synthesized at the same time share steps.
 *
 * @module
 */
import { type Decoder, GREEDY } from "../../decoder/decoder.ts";
import { generateTokens } from "../../engine/generate.ts";
import { EngineLoop } from "../../engine/loop.ts";
import { warmUp } from "../../engine/warm_up.ts";
import { type GraphSession, Tensor } from "../../device/ort/ort.ts";
import { loadDecoder } from "../folder/decoder_load.ts";
import type { OpenContext } from "../folder/open_context.ts";
import { openJoinGraph } from "../folder/join_graph.ts";
import { readContextLength } from "../folder/text_sizes.ts";
import { SpeechEmbedder } from "./speech_embedder.ts";

/** 40 seconds; lines are at most half as long. */
const MAX_NEW_TOKENS = 1_000;
/** Room for a voice and a text before the sound. */
const MAX_PROMPT_TOKENS = 1_280;
/** Lines that are synthesized at a time. */
const MAX_SEQUENCES = 2;

/** How tokens are chosen, and which end the speech. */
interface SpeechTokenRules {
  readonly endTokens: readonly number[];
  /** Repetition penalty (Keskar et al. 2019); above 1 earlier tokens become less likely. */
  readonly repetitionPenalty: number;
}

/** Embeddings of a voice: f32, of these dims. */
export interface EmbeddingRows {
  readonly values: Float32Array;
  readonly dims: readonly number[];
}

/** Its parts; it owns the graphs, the embedder's as a part of the decoder. */
interface Parts extends SpeechTokenRules {
  readonly decoder: Decoder;
  readonly embedder: SpeechEmbedder;
  /** A voice and a text's embeddings to one prompt. */
  readonly join: GraphSession;
}

export class SpeechTokenGenerator {
  readonly #parts: Parts;
  readonly #engine: EngineLoop;

  private constructor(parts: Parts) {
    this.#parts = parts;
    // Texts have nothing in common but the voice.
    this.#engine = new EngineLoop(parts.decoder, { prefixCache: false });
  }

  /** Opens `language_model` and `embed_tokens`. @throws {StartupError} when one is not as it is exported. */
  static async open(context: OpenContext, rules: SpeechTokenRules): Promise<SpeechTokenGenerator> {
    const { folder, engine, backend } = context;
    let embedder: SpeechEmbedder | undefined;
    const { decoder } = await loadDecoder({
      ...context,
      engine: { ...engine, maxSequences: Math.min(MAX_SEQUENCES, engine.maxSequences ?? Infinity) },
      contextLength: Math.min(readContextLength(folder), MAX_PROMPT_TOKENS + MAX_NEW_TOKENS),
      openEmbedding: async (dtype) => {
        embedder = await SpeechEmbedder.open(context, dtype);
        return embedder.ofStep;
      },
    });
    // Native code has nothing to compile.
    if (backend.runtime !== "native") await warmUp(decoder);
    const join = await openJoinGraph(backend, {
      first: "float32",
      second: embedder!.dtype as "float32" | "float16",
    });
    return new SpeechTokenGenerator({ ...rules, decoder, embedder: embedder!, join });
  }

  /**
   * The greedily decoded speech tokens, without the end token.
   *
   * @param tokens of the text, with the special tokens around it.
   * @param options.prefix `[1, rows, width]`, before the text.
   * @throws the signal's reason.
   */
  async generate(
    tokens: readonly number[],
    { prefix, signal }: { readonly prefix: EmbeddingRows; readonly signal: AbortSignal },
  ): Promise<number[]> {
    const { embedder, join, endTokens, repetitionPenalty } = this.#parts;
    signal.throwIfAborted();
    const text = await embedder.embed(tokens);
    const voice = new Tensor("float32", prefix.values, prefix.dims);
    const rows = (await join.run({ first: voice, second: text }))["joined"]!;
    text.dispose();
    const length = rows.dims[1]!;
    // What stands for the voice must not count as another token that was there before.
    const promptTokens = new Int32Array(length).fill(tokens[0]!);
    promptTokens.set(tokens, length - tokens.length);
    try {
      const generated = await generateTokens(this.#engine, {
        promptTokens,
        media: [{ start: 0, end: length, key: "", source: { rows: () => Promise.resolve(rows) } }],
        sample: { ...GREEDY, repetitionPenalty },
        maxTokens: MAX_NEW_TOKENS,
        endTokens,
        signal,
      });
      return generated.tokens;
    } finally {
      rows.dispose();
    }
  }

  async dispose(): Promise<void> {
    await this.#engine.close();
    await this.#parts.decoder.dispose();
    await this.#parts.join.release();
  }
}
