/**
 * The encoders of image-to-text models, in two layouts: the image alone (TrOCR, Donut), or image features followed by a
 * text's embeddings (Florence-2).
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { type GraphSession, Tensor } from "../../device/ort/ort.ts";
import {
  EMBEDDING,
  type GraphContext,
  openEmbeddingGraph,
  openGraph,
  openJoinGraph,
  requireKnownInputs,
  requirePorts,
} from "../folder/graph_file.ts";
import { tensorFor } from "../plain_tensor.ts";

const ENCODER = "encoder_model";
const VISION = "vision_encoder";

/** The encoder's input. */
export interface ImageInput {
  /** A prepared image, f32 `[1, channels, height, width]`, on the CPU. */
  readonly pixels: Tensor;
  /** Token ids of the text; empty if the encoder reads none. */
  readonly text: readonly number[];
  /** Number of positions in the encoder's output, once it is encoded. */
  numPositions?: number;
}

/** Florence-2's graphs besides encoder and decoder. */
interface TextSide {
  readonly vision: GraphSession;
  readonly embedding: GraphSession;
  readonly join: GraphSession;
}

export class ImageEncoder {
  readonly #encoder: GraphSession;
  readonly #textSide: TextSide | undefined;

  private constructor(encoder: GraphSession, textSide: TextSide | undefined) {
    this.#encoder = encoder;
    this.#textSide = textSide;
  }

  /** @throws {StartupError} when the folder lacks a graph, or one does not look like Optimum's export. */
  static async load(context: GraphContext): Promise<ImageEncoder> {
    const hasText = context.graphs.has(VISION);
    const encoder = await openGraph(ENCODER, context);
    requireInputs(
      encoder,
      ENCODER,
      hasText ? ["inputs_embeds", "attention_mask"] : ["pixel_values"],
    );
    const textSide = hasText ? await openTextSide(context) : undefined;
    return new ImageEncoder(encoder, textSide);
  }

  /** Whether the encoder reads a text with the image, and embeds tokens. */
  get readsText(): boolean {
    return this.#textSide !== undefined;
  }

  /** Whether two inputs may be encoded in one call: their images have one size, and their texts one length. */
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
    if (this.#textSide === undefined) {
      const outputs = await this.#encoder.run({ pixel_values: castToInput(pixels, this.#encoder) });
      return outputs["last_hidden_state"]!;
    }
    const { vision, embedding, join } = this.#textSide;
    const seen = await vision.run({ pixel_values: castToInput(pixels, vision) });
    const image = seen["image_features"]!;
    const ids = tensorFor(embedding.inputs[0]!, texts.flat(), [texts.length, texts[0]!.length]);
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
   * The session that embeds tokens, if the encoder {@linkcode readsText}. The encoder owns it: releasing it does
   * nothing.
   */
  get embedding(): GraphSession | undefined {
    const session = this.#textSide?.embedding;
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
    for (const session of Object.values(this.#textSide ?? {})) await session.release();
  }
}

async function openTextSide(context: GraphContext): Promise<TextSide> {
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
    `A graph gives ${values.map((each) => each.name).join(", ")}, not ${name}.`,
  );
}

function castToInput(pixels: Tensor, { inputs }: GraphSession): Tensor {
  const input = { name: "pixel_values", type: getType(inputs, "pixel_values") };
  return tensorFor(input, pixels.data as Float32Array, pixels.dims);
}

function stack(images: readonly Tensor[]): Tensor {
  const [first] = images;
  if (images.length === 1) return first!;
  const data = new Float32Array(images.length * first!.size);
  images.forEach((image, row) => data.set(image.data as Float32Array, row * first!.size));
  return new Tensor("float32", data, [images.length, ...first!.dims.slice(1)]);
}
