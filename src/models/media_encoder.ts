/**
 * The graph that turns a preprocessed image or sound into embedding rows.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import { StartupError } from "../base/errors.ts";
import { type Json, tokensAt } from "../hub/model_folder.ts";
import { buildCast } from "../graph/built_models.ts";
import type { GraphSession, Tensor, ValueInfo } from "../device/ort/ort.ts";
import { type PlainTensors, toFeeds } from "./plain_tensor.ts";

/** Inputs that some exports call differently than the processors of transformers.js. */
const ALIASES: Readonly<Record<string, string>> = {
  grid_thw: "image_grid_thw",
  pixel_position_ids: "image_position_ids",
};

/** What an encoder takes; also the type of its parts in messages. */
export type Medium = "image" | "audio";

/** How messages name a medium. */
export const MEDIA_NAMES = {
  image: { one: "an image", plural: "images" },
  audio: { one: "a sound", plural: "sounds" },
} as const;

/** The placeholder token of a medium in prompts, if `config.json` names it. */
export function findMediaToken(config: Json, medium: Medium): number | undefined {
  return [`${medium}_token_index`, `${medium}_token_id`].flatMap((name) =>
    tokensAt(config, name)
  )[0];
}

const NAMES = { image: "vision encoder", audio: "audio encoder" } as const;

/** The parts of an encoder. The encoder owns them. */
interface MediaEncoderParts {
  readonly medium: Medium;
  readonly session: GraphSession;
  readonly output: ValueInfo;
  /** Casts rows to the embeddings' dtype, if the encoder's output has another. */
  readonly cast?: GraphSession;
}

export class MediaEncoder {
  readonly #parts: MediaEncoderParts;

  private constructor(parts: MediaEncoderParts) {
    this.#parts = parts;
  }

  /**
   * @param options.session owned by the encoder from now on.
   * @param options.embeddings the embeddings that its rows replace; absent if the decoder takes none.
   * @throws {StartupError} when the decoder takes no embeddings, or embeddings of another width than the rows.
   */
  static async open({ backend, session, embeddings, medium }: {
    readonly backend: Backend;
    readonly session: GraphSession;
    readonly embeddings: ValueInfo | undefined;
    readonly medium: Medium;
  }): Promise<MediaEncoder> {
    if (embeddings === undefined) {
      throw new StartupError(
        `The decoder takes token ids, not embeddings, so there is no use for the ${NAMES[medium]}.`,
      );
    }
    const output = session.outputs.find(({ name }) => name === `${medium}_features`) ??
      session.outputs[0]!;
    const [width, wanted] = [readWidth(output), readWidth(embeddings)];
    if (width !== undefined && wanted !== undefined && width !== wanted) {
      throw new StartupError(
        `The ${NAMES[medium]} gives rows of ${width} numbers, and the decoder takes ${wanted}.`,
      );
    }
    if (output.type === embeddings.type) return new MediaEncoder({ medium, session, output });
    const [from, to] = [output.type as "float32", embeddings.type as "float16"];
    const cast = await backend.openSession(buildCast({ from, to, shape: output.shape }));
    return new MediaEncoder({ medium, session, output, cast });
  }

  /**
   * Encodes an image or a sound.
   *
   * @param numRows number of rows that the prompt expects. Rows after those, which some audio encoders give for silence
   * at the end, are not used.
   * @returns `[…, width]` in the embeddings' dtype, on the device; the caller disposes of it.
   * @throws {Error} when an encoder input is missing, or the number of rows differs.
   */
  async encode(tensors: PlainTensors, numRows: number): Promise<Tensor> {
    const { medium, session, output: { name }, cast } = this.#parts;
    const what = NAMES[medium];
    const feeds = toFeeds(session, {
      getTensor: (input) => tensors[input] ?? tensors[ALIASES[input] ?? ""],
      of: `The ${what}`,
    });
    const rows = (await session.run(feeds, { [name]: null }))[name]!;
    const numGiven = rows.size / rows.dims.at(-1)!;
    if (medium === "audio" ? numGiven < numRows : numGiven !== numRows) {
      rows.dispose();
      throw new Error(`The ${what} gave ${numGiven} rows for ${numRows} ${medium} tokens.`);
    }
    if (cast === undefined) return rows;
    try {
      return (await cast.run({ given: rows }))["cast"]!;
    } finally {
      rows.dispose();
    }
  }

  async dispose(): Promise<void> {
    await this.#parts.cast?.release();
    await this.#parts.session.release();
  }
}

function readWidth({ shape }: ValueInfo): number | undefined {
  const width = shape.at(-1);
  return typeof width === "number" ? width : undefined;
}
