/**
 * Chatterbox's language model: from a voice and a text's tokens it generates speech tokens. Each text is a request to
 * the engine, so texts that are synthesized at the same time share steps.
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
  openJoinGraph,
  readGraph,
  requireKnownInputs,
} from "../folder/graph_file.ts";
import { readContextLength } from "../folder/text_sizes.ts";
import { type TensorType, toDtypeCode } from "../../graph/file/tensor.ts";
import { int64Tensor, makeNode, type ModelProto, withGraph } from "../../graph/file/proto.ts";
import { makeValueInfo } from "../../graph/file/proto_codec.ts";
import { tensorFor } from "../plain_tensor.ts";

/** 40 seconds of sound; lines are at most half as long. */
const MAX_NEW_TOKENS = 1_000;
/** Positions for a voice and a text before the generated tokens. */
const MAX_PROMPT_TOKENS = 1_280;
/** Most lines that are synthesized at a time. */
const MAX_SEQUENCES = 2;

/** How tokens are sampled, and which of them end the speech. */
interface SpeechTokenRules {
  readonly endTokens: readonly number[];
  /** Repetition penalty (Keskar et al. 2019): above 1, earlier tokens become less likely. */
  readonly repetitionPenalty: number;
}

/** Embeddings that describe a voice: f32, with shape `dims`. */
export interface EmbeddingRows {
  readonly values: Float32Array;
  readonly dims: readonly number[];
}

/** The parts of a generator. The generator owns the graphs; the embedder belongs to the decoder. */
interface Parts extends SpeechTokenRules {
  readonly decoder: Decoder;
  readonly embedder: SpeechEmbedder;
  /** Joins a voice and a text's embeddings into one prompt. */
  readonly join: GraphSession;
}

export class SpeechTokenGenerator {
  readonly #parts: Parts;
  readonly #engine: EngineLoop;

  private constructor(parts: Parts) {
    this.#parts = parts;
    // No prefix cache: texts have only the voice in common.
    this.#engine = new EngineLoop(parts.decoder, { prefixCache: false });
  }

  /**
   * Opens `language_model` and `embed_tokens`.
   *
   * @throws {StartupError} when one of them lacks an expected input or output.
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
   * Generates speech tokens greedily. The result has no end token.
   *
   * @param tokens of the text, with the special tokens around it.
   * @param options.prefix `[1, rows, width]`, the rows before the text.
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
    // Positions of the voice repeat a token of the text, so that the repetition penalty sees no additional token.
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

/** The inputs and the output of the graph of embeddings. */
const EMBEDS = "inputs_embeds";
const IDS = "input_ids";
const POSITIONS = "position_ids";
const EXAGGERATION = "exaggeration";
/** The model's exaggeration parameter, 0 to 1; this is its default. */
const DEFAULT_EXAGGERATION = 0.5;
/** The start-of-speech token. Text tokens have lower ids, further control tokens higher ones. */
const START_OF_SPEECH = 6_561;

/**
 * Chatterbox's graph of embeddings, adapted to the engine, whose steps hold tokens of several texts. The graph decides
 * by the earlier tokens of a row whether a token is text or sound. In a step all tokens are sound, so each gets a row of
 * its own. The prompt before the sound is embedded in one row, by {@linkcode SpeechEmbedder.embed}.
 */
class SpeechEmbedder {
  readonly #session: GraphSession;

  private constructor(session: GraphSession) {
    this.#session = session;
  }

  /**
   * Opens `embed_tokens`.
   *
   * @param dtype of the embeddings that the decoder takes.
   * @throws {StartupError} when the folder lacks the graph, or it has unknown inputs.
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

  /** The same graph for the tokens of a step: puts each token into a row of its own. */
  get ofStep(): GraphSession {
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

  /** Runs rows of tokens, all with the default exaggeration. Only feeds for which the graph has inputs are used. */
  #run(feeds: Tensors, fetches?: Parameters<GraphSession["run"]>[1]): Promise<Tensors> {
    const numRows = feeds[IDS]!.dims[0]!;
    const taken = this.#session.inputs.map((input) => [
      input.name,
      input.name === EXAGGERATION
        ? tensorFor(input, new Array(numRows).fill(DEFAULT_EXAGGERATION), [numRows])
        : feeds[input.name]!,
    ]);
    return this.#session.run(Object.fromEntries(taken), fetches);
  }
}

/** Positions of the text's tokens; those of speech tokens start again at 0. */
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
    // The 0 keeps the width as it is.
    initializers: [...graph.initializers, int64Tensor("hearth_packed", [3], [1, -1, 0])],
    outputs: [makeValueInfo(EMBEDS, dtype, [1, "tokens", width])],
  });
}
