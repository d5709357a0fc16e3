/**
 * Chatterbox's language model, which generates speech tokens from a voice and the tokens of a text. Each text is a
 * request to the engine, so texts that are synthesized at the same time share steps.
 *
 * @module
 */
import { type Decoder, GREEDY } from "../../decoder/decoder.ts";
import { generateTokens, warmUp } from "../../engine/generate.ts";
import { EngineLoop } from "../../engine/loop.ts";
import { type GraphSession, Tensor, type Tensors } from "../../device/ort/ort.ts";
import { loadDecoder } from "../folder/decoder_load.ts";
import type { OpenContext } from "../model.ts";
import {
  EMBEDDING,
  type GraphContext,
  makeInputTensor,
  openJoinGraph,
  readGraph,
  requireKnownInputs,
} from "../folder/graph_file.ts";
import { readContextLength } from "../folder/config_fields.ts";
import { type TensorType, toDtypeCode } from "../../graph/file/tensor.ts";
import { int64Tensor, makeNode, type ModelProto, withGraph } from "../../graph/file/proto.ts";
import { makeValueInfo } from "../../graph/file/proto_codec.ts";

/** Maximum number of generated tokens: 40 seconds of sound, twice as much as the longest line needs. */
const MAX_NEW_TOKENS = 1_000;
/** Positions for a voice and a text before the generated tokens. */
const MAX_PROMPT_TOKENS = 1_280;
/** Maximum number of lines that are synthesized at a time. */
const MAX_SEQUENCES = 2;

/** Rules for generating speech tokens. */
interface SpeechTokenRules {
  /** Tokens that end the speech. */
  readonly endTokens: readonly number[];
  /** Repetition penalty (Keskar et al. 2019). Above 1, tokens that occurred before become less likely. */
  readonly repetitionPenalty: number;
}

/** Embeddings that describe a voice: f32 of shape `dims`. */
export interface EmbeddingRows {
  readonly values: Float32Array;
  readonly dims: readonly number[];
}

/** The parts of a generator, which owns decoder and join graph; the decoder owns the embedder's session. */
interface Parts extends SpeechTokenRules {
  readonly decoder: Decoder;
  readonly embedder: SpeechEmbedder;
  /** The graph that joins the embeddings of a voice and a text into one prompt. */
  readonly join: GraphSession;
}

export class SpeechTokenGenerator {
  readonly #parts: Parts;
  readonly #engine: EngineLoop;

  private constructor(parts: Parts) {
    this.#parts = parts;
    // The prefix cache is off, as texts have only the voice in common.
    this.#engine = new EngineLoop(parts.decoder, { prefixCache: false });
  }

  /**
   * Opens `language_model` and `embed_tokens`.
   *
   * @throws {StartupError} when a graph is missing, or lacks an expected input or output.
   */
  static async open(context: OpenContext, rules: SpeechTokenRules): Promise<SpeechTokenGenerator> {
    const { folder, engine, backend } = context;
    let embedder: SpeechEmbedder | undefined;
    const { decoder } = await loadDecoder({
      ...context,
      engine: { ...engine, maxSequences: Math.min(MAX_SEQUENCES, engine.maxSequences ?? Infinity) },
      contextLength: Math.min(readContextLength(folder), MAX_PROMPT_TOKENS + MAX_NEW_TOKENS),
      openEmbedding: async (dtype) => {
        embedder = await SpeechEmbedder.open(context, dtype);
        return embedder.stepSession;
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
   * Generates speech tokens greedily. The result does not include the end token.
   *
   * @param tokens tokens of the text, with the special tokens around it.
   * @param options.prefix the rows before the text, `[1, rows, width]`.
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
    // The positions of the voice hold a token of the text, so that the repetition penalty sees no additional token.
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

/** The embedding graph's output. */
const EMBEDS = "inputs_embeds";
// The embedding graph's inputs.
const IDS = "input_ids";
const POSITIONS = "position_ids";
const EXAGGERATION = "exaggeration";
/** Default of the model's exaggeration parameter, 0 to 1. */
const DEFAULT_EXAGGERATION = 0.5;
/** The start-of-speech token. Text tokens have lower ids, and other control tokens have higher ids. */
const START_OF_SPEECH = 6_561;

/**
 * Chatterbox's embedding graph, adapted to the engine, whose steps hold tokens of several texts. The graph decides
 * whether a token is text or speech by the earlier tokens in the same row. In a step all tokens are speech, so each
 * gets its own row. The text in the prompt is embedded as one row, by {@linkcode SpeechEmbedder.embed}.
 */
class SpeechEmbedder {
  readonly #session: GraphSession;

  private constructor(session: GraphSession) {
    this.#session = session;
  }

  /**
   * Opens `embed_tokens`.
   *
   * @param dtype dtype of the embeddings that the decoder takes.
   * @throws {StartupError} when the folder lacks the graph, or the graph has unknown inputs.
   */
  static async open(context: GraphContext, dtype: TensorType): Promise<SpeechEmbedder> {
    await using graph = await readGraph(context, EMBEDDING);
    const session = await context.backend.openModel(pack(graph.model, dtype), graph.files);
    requireKnownInputs(session, {
      isKnown: (name) => [IDS, POSITIONS, EXAGGERATION].includes(name),
      of: graph.path,
    });
    return new SpeechEmbedder(session);
  }

  /** The session for the tokens of a step, which puts each token into its own row. */
  get stepSession(): GraphSession {
    const { inputs, outputs } = this.#session;
    return {
      inputs,
      outputs,
      run: (feeds, fetches) => {
        const rows = Object.entries(feeds).map(([name, tensor]) => [
          name,
          tensor.reshape([tensor.size, 1]),
        ]);
        return this.#run(Object.fromEntries(rows), fetches);
      },
      release: () => this.#session.release(),
    };
  }

  /** The data type of the embeddings. */
  get dtype(): GraphSession["outputs"][number]["type"] {
    return this.#session.outputs[0]!.type;
  }

  /**
   * Embeds a text's tokens, including the special tokens around it and the start of speech.
   *
   * @returns `[1, tokens, width]`, on the device, owned by the caller.
   */
  async embed(tokens: readonly number[]): Promise<Tensor> {
    const asRow = (values: readonly number[]) =>
      new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
    const feeds = { [IDS]: asRow(tokens), [POSITIONS]: asRow(makePositions(tokens)) };
    return (await this.#run(feeds))[EMBEDS]!;
  }

  /** Runs rows of tokens with the default exaggeration. Feeds for which the graph has no input are ignored. */
  #run(feeds: Tensors, fetches?: Parameters<GraphSession["run"]>[1]): Promise<Tensors> {
    const numRows = feeds[IDS]!.dims[0]!;
    const taken = this.#session.inputs.map((input) => [
      input.name,
      input.name === EXAGGERATION
        ? makeInputTensor(input, new Array(numRows).fill(DEFAULT_EXAGGERATION), [numRows])
        : feeds[input.name]!,
    ]);
    return this.#session.run(Object.fromEntries(taken), fetches);
  }
}

/**
 * Makes the positions of a prompt's tokens. Text tokens are counted from 0; control tokens such as the start of speech
 * are all at position 0.
 */
function makePositions(tokens: readonly number[]): number[] {
  let position = 0;
  return tokens.map((token) => token >= START_OF_SPEECH ? 0 : position++);
}

/** Changes the graph's output to `[1, tokens, width]` of a dtype, however the tokens are divided into rows. */
function pack(model: ModelProto, dtype: TensorType): ModelProto {
  const { graph } = model;
  const width = graph.outputs.find(({ name }) => name === EMBEDS)?.shape?.at(-1) ?? "width";
  const [own, cast] = ["hearth_embeds", "hearth_cast"];
  const renamed = (name: string) => name === EMBEDS ? own : name;
  return withGraph(model, {
    nodes: [
      ...graph.nodes.map((node) => ({
        ...node,
        inputs: node.inputs.map(renamed),
        outputs: node.outputs.map(renamed),
      })),
      makeNode("Cast", [own], [cast], { attributes: { to: toDtypeCode(dtype) } }),
      makeNode("Reshape", [cast, "hearth_packed"], [EMBEDS]),
    ],
    // In a Reshape, 0 keeps the size of the axis: the width.
    initializers: [...graph.initializers, int64Tensor("hearth_packed", [3], [1, -1, 0])],
    outputs: [makeValueInfo(EMBEDS, dtype, [1, "tokens", width])],
  });
}
