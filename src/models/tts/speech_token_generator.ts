/**
 * Chatterbox's language model: from a voice and a text's tokens it generates speech tokens.
 *
 * @module
 */
import { disposeTensors, type Tensors } from "../../onnx/ort.ts";
import { nextTurn } from "../../next_turn.ts";
import { emptyCache, pickCache } from "./tts_cache.ts";
import { type Feed, freeFeed, type TtsGraph } from "./tts_graph.ts";

/** The start-of-speech token; text tokens come before it in the vocabulary, further control tokens after it. */
const START_OF_SPEECH = 6_561;
const EMBEDS = "inputs_embeds";
/** The model's exaggeration parameter, 0 to 1; its default. */
const EXAGGERATION = { values: [0.5], dims: [1] } as const;
/** 40 seconds; lines are at most half as long. */
const MAX_NEW_TOKENS = 1_000;

/** Its parts; it owns the graphs. */
export interface SpeechTokenGeneratorParts {
  /** Token ids to vectors. */
  readonly embedder: TtsGraph;
  /** Vectors, keys and values to logits. */
  readonly decoder: TtsGraph;
  /** The end tokens. */
  readonly endTokens: readonly number[];
  /** Repetition penalty; above 1 earlier tokens become less likely. */
  readonly repetitionPenalty: number;
}

/** The rows before the text. */
export interface VoicePrefix {
  /** f32 `[1, rows, width]`. */
  readonly values: Float32Array;
  readonly dims: readonly number[];
}

export class SpeechTokenGenerator {
  readonly #parts: SpeechTokenGeneratorParts;
  readonly #cacheInputs: TtsGraph["inputs"];

  constructor(parts: SpeechTokenGeneratorParts) {
    this.#parts = parts;
    this.#cacheInputs = parts.decoder.inputs.filter(({ name }) =>
      name.startsWith("past_key_values.")
    );
  }

  /**
   * The greedily decoded speech tokens, without the end token.
   *
   * @param tokens of the text, with the special tokens around it.
   * @throws the signal's reason.
   */
  async generate(
    tokens: readonly number[],
    { prefix, signal }: { readonly prefix: VoicePrefix; readonly signal: AbortSignal },
  ): Promise<number[]> {
    const { endTokens, repetitionPenalty } = this.#parts;
    const seen = new Set(tokens);
    const written: number[] = [];
    const text = await this.#embed(tokens, positionsOf(tokens));
    let embeds: Feed | undefined = join(prefix, await this.#read(text));
    let cache = emptyCache(this.#cacheInputs);
    let numSeen = 0;
    try {
      while (embeds !== undefined && written.length < MAX_NEW_TOKENS) {
        await nextTurn();
        signal.throwIfAborted();
        const outputs: Tensors = await this.#step(embeds, { cache, numSeen });
        numSeen += embeds.dims[1]!;
        freeFeed(embeds);
        embeds = undefined;
        disposeTensors(cache);
        cache = pickCache(outputs, this.#cacheInputs.map(({ name }) => name));
        const vocabSize = outputs["logits"]!.dims.at(-1)!;
        const logits = (await this.#parts.decoder.take(outputs, "logits")).subarray(-vocabSize);
        const token = likeliest(logits, { seen, repetitionPenalty });
        if (endTokens.includes(token)) break;
        seen.add(token);
        written.push(token);
        embeds = await this.#embed([token], [written.length]);
      }
    } finally {
      disposeTensors(cache);
      if (embeds !== undefined) freeFeed(embeds);
    }
    return written;
  }

  async dispose(): Promise<void> {
    await this.#parts.embedder.release();
    await this.#parts.decoder.release();
  }

  /** Embeddings of tokens, left on the device if they have the decoder's type. */
  async #embed(tokens: readonly number[], positions: readonly number[]): Promise<Feed> {
    const dims = [1, tokens.length];
    const { [EMBEDS]: embeds } = await this.#parts.embedder.run({
      input_ids: { values: tokens, dims },
      position_ids: { values: positions, dims },
      exaggeration: EXAGGERATION,
    });
    if (embeds === undefined) throw new Error(`The graph gives no output "${EMBEDS}".`);
    const wanted = this.#parts.decoder.inputs.find(({ name }) => name === EMBEDS);
    return embeds.type === wanted?.type ? embeds : await this.#read(embeds);
  }

  async #read(embeds: Feed): Promise<VoicePrefix> {
    if ("values" in embeds) return embeds as VoicePrefix;
    const { dims } = embeds;
    return { values: await this.#parts.embedder.take({ [EMBEDS]: embeds }, EMBEDS), dims };
  }

  #step(
    embeds: Feed,
    { cache, numSeen }: { readonly cache: Tensors; readonly numSeen: number },
  ): Promise<Tensors> {
    const numNew = embeds.dims[1]!;
    return this.#parts.decoder.run({
      ...cache,
      [EMBEDS]: embeds,
      attention_mask: {
        values: new Int32Array(numSeen + numNew).fill(1),
        dims: [1, numSeen + numNew],
      },
      position_ids: {
        values: Int32Array.from({ length: numNew }, (_, i) => numSeen + i),
        dims: [1, numNew],
      },
      num_logits_to_keep: { values: [1], dims: [] },
    });
  }
}

/** Positions in the text; those of speech tokens start again. */
function positionsOf(tokens: readonly number[]): number[] {
  let position = 0;
  return tokens.map((token) => token >= START_OF_SPEECH ? 0 : position++);
}

function join(first: VoicePrefix, second: VoicePrefix): VoicePrefix {
  const values = new Float32Array(first.values.length + second.values.length);
  values.set(first.values);
  values.set(second.values, first.values.length);
  return { values, dims: [1, first.dims[1]! + second.dims[1]!, second.dims[2]!] };
}

/** The argmax after the repetition penalty (Keskar et al. 2019), the lowest id among equals. */
function likeliest(
  logits: Float32Array,
  { seen, repetitionPenalty }: {
    readonly seen: ReadonlySet<number>;
    readonly repetitionPenalty: number;
  },
): number {
  for (const token of seen) {
    const logit = logits[token];
    if (logit === undefined) continue;
    logits[token] = logit < 0 ? logit * repetitionPenalty : logit / repetitionPenalty;
  }
  let best = 0;
  for (let token = 1; token < logits.length; token++) {
    if (logits[token]! > logits[best]!) best = token;
  }
  return best;
}
