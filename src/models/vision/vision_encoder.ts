/**
 * The graph that turns a preprocessed image into embedding rows.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import { StartupError } from "../../errors.ts";
import { buildCast } from "../../onnx/rewrite/cast_model.ts";
import { type GraphSession, Tensor, type ValueInfo } from "../../onnx/runtime/ort.ts";
import type { PlainTensor, PreparedImage } from "../prepared_image.ts";

/** Inputs that some exports name differently from transformers.js's processors. */
const ALIASES: Readonly<Record<string, string>> = {
  grid_thw: "image_grid_thw",
  pixel_position_ids: "image_position_ids",
};
const OUTPUT = "image_features";

/** The parts of an encoder. */
export interface VisionEncoderOptions {
  readonly backend: Backend;
  /** Owned from here on. */
  readonly session: GraphSession;
  /** The embeddings that its rows replace. */
  readonly embeddings: ValueInfo;
}

export class VisionEncoder {
  readonly #session: GraphSession;
  readonly #output: ValueInfo;
  /** Casts to the embeddings' dtype, if the encoder has another. */
  readonly #cast: GraphSession | undefined;

  private constructor(session: GraphSession, output: ValueInfo, cast: GraphSession | undefined) {
    this.#session = session;
    this.#output = output;
    this.#cast = cast;
  }

  /** @throws {StartupError} when its rows do not have the embeddings' width. */
  static async open(
    { backend, session, embeddings }: VisionEncoderOptions,
  ): Promise<VisionEncoder> {
    const output = session.outputs.find(({ name }) => name === OUTPUT) ?? session.outputs[0]!;
    const [width, wanted] = [widthOf(output), widthOf(embeddings)];
    if (width !== undefined && wanted !== undefined && width !== wanted) {
      throw new StartupError(
        `The vision encoder gives rows of ${width} numbers, and the decoder takes ${wanted}.`,
      );
    }
    if (output.type === embeddings.type) return new VisionEncoder(session, output, undefined);
    const [from, to] = [output.type as "float32", embeddings.type as "float16"];
    const cast = await backend.openSession(buildCast({ from, to, shape: output.shape }));
    return new VisionEncoder(session, output, cast);
  }

  /**
   * Encodes an image.
   *
   * @param numRows expected by the prompt.
   * @returns `[…, width]` in the embeddings' dtype, on the device; the caller disposes of it.
   * @throws {Error} when the image lacks an encoder input, or the number of rows differs.
   */
  async encode(image: PreparedImage, numRows: number): Promise<Tensor> {
    const feeds = Object.fromEntries(this.#session.inputs.map((input) => {
      const prepared = image.tensors[input.name] ?? image.tensors[ALIASES[input.name] ?? ""];
      if (prepared === undefined) {
        throw new Error(`The vision encoder has an input "${input.name}", which is not known.`);
      }
      return [input.name, toTensor(prepared, input)];
    }));
    const { name } = this.#output;
    const outputs = await this.#session.run(feeds, { [name]: null });
    const rows = outputs[name]!;
    const numGiven = rows.size / rows.dims.at(-1)!;
    if (numGiven !== numRows) {
      rows.dispose();
      throw new Error(`The vision encoder gave ${numGiven} rows for ${numRows} image tokens.`);
    }
    if (this.#cast === undefined) return rows;
    try {
      return (await this.#cast.run({ given: rows }))["cast"]!;
    } finally {
      rows.dispose();
    }
  }

  async dispose(): Promise<void> {
    await this.#cast?.release();
    await this.#session.release();
  }
}

function widthOf({ shape }: ValueInfo): number | undefined {
  const width = shape.at(-1);
  return typeof width === "number" ? width : undefined;
}

/** A tensor of an input's type. */
function toTensor({ type, data, dims }: PlainTensor, input: ValueInfo): Tensor {
  if (type === input.type) return new Tensor(input.type, data as Float32Array, dims);
  const numbers = Array.from<number | bigint, number>(data, Number);
  switch (input.type) {
    case "float16":
      return new Tensor("float16", new Uint16Array(Float16Array.from(numbers).buffer), dims);
    case "float32":
      return new Tensor("float32", Float32Array.from(numbers), dims);
    case "int64":
      return new Tensor("int64", BigInt64Array.from(numbers, BigInt), dims);
    case "bool":
      return new Tensor("bool", Uint8Array.from(numbers), dims);
    default:
      throw new Error(`The vision encoder wants "${input.name}" in ${input.type}.`);
  }
}
