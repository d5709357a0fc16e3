/**
 * The graphs of models that read a picture with an encoder and write text with a decoder, in two layouts: the picture
 * alone (TrOCR, Donut), or its features in front of a text's embeddings (Florence-2).
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../backend/backend.ts";
import type { Dtype } from "../config.ts";
import { StartupError } from "../errors.ts";
import { type Session, Tensor } from "../onnx/ort.ts";
import { chooseDtype, dtypesOf, externalDataFiles, graphFile, type ModelFolder } from "./folder.ts";
import { openJoinGraph } from "./join_graph.ts";
import { type DecoderState, type DecoderStep, MergedDecoder } from "./merged_decoder.ts";
import type { LoadProgress } from "./progress.ts";

const ENCODER = "encoder_model";
const DECODER = "decoder_model_merged";
const VISION = "vision_encoder";
const EMBEDDING = "embed_tokens";

/** Prepared pictures of equal size, with the texts that the encoder reads, of equal length. */
export interface EncoderInput {
  /** f32 `[pictures, channels, height, width]`. */
  readonly pixels: Tensor;
  /** Token ids; empty where the encoder reads none. */
  readonly texts: readonly (readonly number[])[];
}

/** How to open the graphs. */
export interface EncoderDecoderOptions {
  readonly backend: Backend;
  readonly dtype?: Dtype | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
}

/** What Florence-2 has besides encoder and decoder. */
interface TextSide {
  readonly vision: Session;
  readonly embedding: Session;
  readonly join: Session;
}

/** The sessions. */
export class EncoderDecoderGraphs {
  /** Of the decoder. */
  readonly dtype: Dtype;
  readonly #encoder: Session;
  readonly #decoder: MergedDecoder;
  readonly #textSide: TextSide | undefined;

  private constructor(
    parts: { encoder: Session; decoder: MergedDecoder; textSide: TextSide | undefined },
    dtype: Dtype,
  ) {
    this.#encoder = parts.encoder;
    this.#decoder = parts.decoder;
    this.#textSide = parts.textSide;
    this.dtype = dtype;
  }

  get logitsDtype(): "float32" | "float16" {
    return this.#decoder.logitsDtype;
  }

  /** @throws {StartupError} when the folder lacks a graph, or one is not as Optimum exports it. */
  static async load(
    folder: ModelFolder,
    options: EncoderDecoderOptions,
  ): Promise<EncoderDecoderGraphs> {
    const { backend } = options;
    const device = backend.kind === "cpu" ? "cpu" : backend.hasF16 ? "gpuWithF16" : "gpu";
    const choose = (graph: string) => {
      // Only the decoder has to be of the dtype asked for: its companions often come in fewer.
      const isHere = options.dtype !== undefined && dtypesOf(folder, graph).includes(options.dtype);
      const wish = graph === DECODER || isHere ? options.dtype : undefined;
      const dtype = chooseDtype(folder, { graph, device, dtype: wish });
      const path = graphFile(graph, dtype);
      options.onProgress({ what: `loading ${path}` });
      return { dtype, path };
    };
    const open = (graph: string) => openWhole(folder, choose(graph).path, backend);
    const hasText = dtypesOf(folder, VISION).length > 0;
    const encoder = await open(ENCODER);
    requireInputs(
      encoder,
      ENCODER,
      hasText ? ["inputs_embeds", "attention_mask"] : ["pixel_values"],
    );
    const textSide = hasText ? await openTextSide(open, backend) : undefined;
    const { dtype, path } = choose(DECODER);
    const decoder = await MergedDecoder.open(folder, { path, backend });
    if ((decoder.tokenInput === "inputs_embeds") !== hasText) {
      throw new StartupError(
        `${path} takes ${decoder.tokenInput}, which does not go with the folder's other graphs.`,
      );
    }
    return new EncoderDecoderGraphs({ encoder, decoder, textSide }, dtype);
  }

  /** Runs the encoder. @returns `[pictures, places, width]`, the caller's. */
  async encode({ pixels, texts }: EncoderInput): Promise<Tensor> {
    if (this.#textSide === undefined) {
      const outputs = await this.#encoder.run({ pixel_values: toTypeOf(pixels, this.#encoder) });
      return outputs["last_hidden_state"]!;
    }
    const { vision, join } = this.#textSide;
    const seen = await vision.run({ pixel_values: toTypeOf(pixels, vision) });
    const picture = seen["image_features"]!;
    const text = await this.#embed(texts);
    const { joined } = await join.run({ picture, text });
    picture.dispose();
    text.dispose();
    const [numRows = 1, numPlaces = 0] = joined!.dims;
    const ones = new BigInt64Array(numRows * numPlaces).fill(1n);
    const attention_mask = new Tensor("int64", ones, [numRows, numPlaces]);
    const outputs = await this.#encoder.run({ inputs_embeds: joined!, attention_mask });
    joined!.dispose();
    return outputs["last_hidden_state"]!;
  }

  /** The decoder's state before its first token. @param hidden the encoder's output, which is taken over. */
  begin(hidden: Tensor): Promise<DecoderState> {
    return this.#decoder.begin(hidden);
  }

  /** Runs one more token of each row. The state given stands. */
  async step(state: DecoderState, tokens: readonly number[]): Promise<DecoderStep> {
    const ids = tokens.map((token) => [token]);
    if (this.#textSide === undefined) return await this.#decoder.step(state, toTensor(ids));
    const embedded = await this.#embed(ids);
    try {
      return await this.#decoder.step(state, embedded);
    } finally {
      embedded.dispose();
    }
  }

  async dispose(): Promise<void> {
    await this.#encoder.release();
    await this.#decoder.release();
    for (const session of Object.values(this.#textSide ?? {})) await session.release();
  }

  async #embed(ids: readonly (readonly number[])[]): Promise<Tensor> {
    const outputs = await this.#textSide!.embedding.run({ input_ids: toTensor(ids) });
    return outputs["inputs_embeds"]!;
  }
}

async function openTextSide(
  open: (graph: string) => Promise<Session>,
  backend: Backend,
): Promise<TextSide> {
  const vision = await open(VISION);
  requireInputs(vision, VISION, ["pixel_values"]);
  const embedding = await open(EMBEDDING);
  requireInputs(embedding, EMBEDDING, ["input_ids"]);
  const join = await openJoinGraph(backend, {
    first: ["picture", typeOf(vision.outputs, "image_features")],
    second: ["text", typeOf(embedding.outputs, "inputs_embeds")],
    output: "joined",
  });
  return { vision, embedding, join };
}

async function openWhole(folder: ModelFolder, path: string, backend: Backend): Promise<Session> {
  const externalData = await Promise.all(
    externalDataFiles(folder, path).map(async (file) => ({
      path: file.slice(file.lastIndexOf("/") + 1),
      data: await Deno.readFile(join(folder.path, file)),
    })),
  );
  return await backend.openSession(await Deno.readFile(join(folder.path, path)), externalData);
}

function requireInputs(session: Session, graph: string, known: readonly string[]): void {
  const names = session.inputs.map(({ name }) => name);
  if (names.length === known.length && known.every((name) => names.includes(name))) return;
  throw new StartupError(
    `onnx/${graph} takes ${names.join(", ")}; wanted is ${
      known.join(", ")
    }, as Optimum exports it.`,
  );
}

function typeOf(values: Session["inputs"], name: string): "float32" | "float16" {
  const value = values.find((each) => each.name === name);
  if (value !== undefined) return value.type as "float32";
  throw new StartupError(
    `A graph gives ${values.map((each) => each.name).join(", ")}, not ${name}.`,
  );
}

function toTypeOf(pixels: Tensor, session: Session): Tensor {
  if (typeOf(session.inputs, "pixel_values") === "float32") return pixels;
  const half = Float16Array.from(pixels.data as Float32Array);
  return new Tensor("float16", new Uint16Array(half.buffer), pixels.dims);
}

function toTensor(ids: readonly (readonly number[])[]): Tensor {
  const dims = [ids.length, ids[0]!.length];
  return new Tensor("int64", BigInt64Array.from(ids.flat(), BigInt), dims);
}
