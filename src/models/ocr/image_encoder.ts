/**
 * The encoders of image-to-text models. There are two layouts: an encoder that reads only an image (TrOCR, Donut), and
 * one that reads image features followed by the embeddings of a text (Florence-2).
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { type GraphSession, Tensor } from "../../device/ort/ort.ts";
import {
  EMBEDDING,
  type GraphContext,
  makeInputTensor,
  openEmbeddingGraph,
  openGraph,
  openJoinGraph,
  requireKnownInputs,
  requirePorts,
} from "../folder/graph_file.ts";

const ENCODER = "encoder_model";
const VISION = "vision_encoder";

/** The encoder's input. */
export interface ImageInput {
  /** A preprocessed image, f32 `[1, channels, height, width]`, on the CPU. */
  readonly pixels: Tensor;
  /** Token ids of the text; empty if the encoder reads no text. */
  readonly text: readonly number[];
  /** Number of positions in the encoder's output; set when the input is encoded. */
  numPositions?: number;
}

/** The graphs that make the encoder's input from an image and a text (Florence-2). */
interface TextGraphs {
  readonly vision: GraphSession;
  readonly embedding: GraphSession;
  readonly join: GraphSession;
}

export class ImageEncoder {
  readonly #encoder: GraphSession;
  readonly #textGraphs: TextGraphs | undefined;

  private constructor(encoder: GraphSession, textGraphs: TextGraphs | undefined) {
    this.#encoder = encoder;
    this.#textGraphs = textGraphs;
  }

  /** @throws {StartupError} when the folder lacks a graph, or a graph does not have the layout of Optimum's exports. */
  static async load(context: GraphContext): Promise<ImageEncoder> {
    const hasText = context.graphs.has(VISION);
    const encoder = await openGraph(ENCODER, context);
    requireInputs(
      encoder,
      ENCODER,
      hasText ? ["inputs_embeds", "attention_mask"] : ["pixel_values"],
    );
    const textGraphs = hasText ? await openTextGraphs(context) : undefined;
    return new ImageEncoder(encoder, textGraphs);
  }

  /** Whether the encoder reads a text in addition to the image. */
  get readsText(): boolean {
    return this.#textGraphs !== undefined;
  }

  /** Whether two inputs can be encoded in one call: their images have the same size, and their texts the same length. */
  isAlike({ pixels, text }: ImageInput, other: ImageInput): boolean {
    return text.length === other.text.length && pixels.dims.join() === other.pixels.dims.join();
  }

  /**
   * Runs the encoder on inputs of equal sizes.
   *
   * @returns `[inputs, positions, width]`, owned by the caller.
   */
  async encode(inputs: readonly ImageInput[]): Promise<Tensor> {
    const pixels = stack(inputs.map(({ pixels }) => pixels));
    const hidden = await this.#run(pixels, inputs.map(({ text }) => text));
    for (const input of inputs) input.numPositions = hidden.dims[1]!;
    return hidden;
  }

  async #run(pixels: Tensor, texts: readonly (readonly number[])[]): Promise<Tensor> {
    if (this.#textGraphs === undefined) {
      const outputs = await this.#encoder.run({ pixel_values: castToInput(pixels, this.#encoder) });
      return outputs["last_hidden_state"]!;
    }
    const { vision, embedding, join } = this.#textGraphs;
    const seen = await vision.run({ pixel_values: castToInput(pixels, vision) });
    const image = seen["image_features"]!;
    const ids = makeInputTensor(embedding.inputs[0]!, texts.flat(), [
      texts.length,
      texts[0]!.length,
    ]);
    const { inputs_embeds: text } = await embedding.run({ input_ids: ids });
    const { joined } = await join.run({ first: image, second: text! });
    image.dispose();
    text!.dispose();
    const [numRows = 1, numPositions = 0] = joined!.dims;
    const ones = new BigInt64Array(numRows * numPositions).fill(1n);
    const attention_mask = new Tensor("int64", ones, [numRows, numPositions]);
    const outputs = await this.#encoder.run({ inputs_embeds: joined!, attention_mask });
    joined!.dispose();
    return outputs["last_hidden_state"]!;
  }

  /**
   * The session that embeds tokens, if the encoder {@linkcode readsText}. As the encoder owns it, `release()` does
   * nothing.
   */
  get embedding(): GraphSession | undefined {
    const session = this.#textGraphs?.embedding;
    if (session === undefined) return undefined;
    return {
      inputs: session.inputs,
      outputs: session.outputs,
      run: session.run.bind(session),
      release: () => Promise.resolve(),
    };
  }

  async release(): Promise<void> {
    await this.#encoder.release();
    for (const session of Object.values(this.#textGraphs ?? {})) await session.release();
  }
}

async function openTextGraphs(context: GraphContext): Promise<TextGraphs> {
  const vision = await openGraph(VISION, context);
  requireInputs(vision, VISION, ["pixel_values"]);
  const embedding = await openEmbeddingGraph(context);
  requireInputs(embedding, EMBEDDING, ["input_ids"]);
  const join = await openJoinGraph(context.backend, {
    first: getType(vision.outputs, "image_features"),
    second: getType(embedding.outputs, "inputs_embeds"),
  });
  return { vision, embedding, join };
}

/** @throws {StartupError} unless the graph has exactly the inputs of Optimum's export. */
function requireInputs(session: GraphSession, graph: string, inputs: readonly string[]): void {
  const of = `onnx/${graph}`;
  requirePorts(session, { inputs, of });
  requireKnownInputs(session, { isKnown: (name) => inputs.includes(name), of });
}

function getType(values: GraphSession["inputs"], name: string): "float32" | "float16" {
  const value = values.find((each) => each.name === name);
  if (value !== undefined) return value.type as "float32";
  throw new StartupError(
    `Wanted: a graph with ${name}; saw one with ${values.map((each) => each.name).join(", ")}.`,
  );
}

function castToInput(pixels: Tensor, { inputs }: GraphSession): Tensor {
  const input = { name: "pixel_values", type: getType(inputs, "pixel_values") };
  return makeInputTensor(input, pixels.data as Float32Array, pixels.dims);
}

function stack(images: readonly Tensor[]): Tensor {
  const [first] = images;
  if (images.length === 1) return first!;
  const data = new Float32Array(images.length * first!.size);
  images.forEach((image, row) => data.set(image.data as Float32Array, row * first!.size));
  return new Tensor("float32", data, [images.length, ...first!.dims.slice(1)]);
}
