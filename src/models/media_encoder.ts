/**
 * Images and sounds as rows of embeddings: the graph that computes the rows, and the media of requests, which are
 * preprocessed on arrival, encoded when a step needs their rows, and cached by content.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import { StartupError } from "../base/errors.ts";
import { type Json, readTokenIds } from "../hub/model_folder.ts";
import { buildCast } from "../graph/built_models.ts";
import type { GraphSession, Tensor, ValueInfo } from "../device/ort/ort.ts";
import { type PlainTensors, toFeeds } from "./folder/graph_file.ts";
import type * as prometheus from "prom-client";
import { MetricSet } from "../base/metric_set.ts";
import { ByteBudgetCache, nameMedia, SharedJobs } from "./threads/active_requests.ts";
import type { AudioPart, ImagePart } from "./task.ts";
import type { PreparedMedium } from "./images/vision_processor.ts";
import type { EmbeddingSource } from "../decoder/decoder.ts";

/** Input names of some exports, with the names that the processors of transformers.js give to the same tensors. */
const ALIASES: Readonly<Record<string, string>> = {
  grid_thw: "image_grid_thw",
  pixel_position_ids: "image_position_ids",
};

/** A medium that an encoder takes; also the `type` of message parts that hold it. */
export type Medium = "image" | "audio";

/** Names of the media in error messages. */
export const MEDIA_NAMES = {
  image: { one: "an image", plural: "images" },
  audio: { one: "a sound", plural: "sounds" },
} as const;

/** Finds the placeholder token of a medium in prompts, if `config.json` gives it. */
export function findMediaToken(config: Json, medium: Medium): number | undefined {
  return [`${medium}_token_index`, `${medium}_token_id`].flatMap((name) =>
    readTokenIds(config, name)
  )[0];
}

const NAMES = { image: "vision encoder", audio: "audio encoder" } as const;

/** The parts of an encoder, which owns them. */
interface MediaEncoderParts {
  readonly medium: Medium;
  readonly session: GraphSession;
  readonly output: ValueInfo;
  /** Casts rows to the dtype of the decoder's embeddings; absent if both are the same. */
  readonly cast?: GraphSession;
}

export class MediaEncoder {
  readonly #parts: MediaEncoderParts;

  private constructor(parts: MediaEncoderParts) {
    this.#parts = parts;
  }

  /**
   * @param options.session owned by the encoder from now on.
   * @param options.embeddings the token embeddings that the rows replace; absent if the decoder takes none.
   * @throws {StartupError} when the decoder takes no embeddings, or their width differs from the width of the rows.
   */
  static async open({ backend, session, embeddings, medium }: {
    readonly backend: Backend;
    readonly session: GraphSession;
    readonly embeddings: ValueInfo | undefined;
    readonly medium: Medium;
  }): Promise<MediaEncoder> {
    if (embeddings === undefined) {
      throw new StartupError(
        `The decoder takes token ids, not embeddings, so the ${NAMES[medium]} cannot be used.`,
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
   * @param numRows number of rows that the prompt has placeholders for. Some audio encoders return more, for silence at
   * the end; the surplus is not used.
   * @returns `[…, width]` in the embeddings' dtype, on the device; the caller disposes of it.
   * @throws {Error} when an input is missing, or the encoder returns another number of rows.
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
      throw new Error(`The ${what} returned ${numGiven} rows for ${numRows} ${medium} tokens.`);
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

/** An image or a sound as a prompt needs it. */
export interface PromptMedium {
  readonly medium: Medium;
  /** Identifies the content: media with equal keys are equal. */
  readonly key: string;
  /** The text that stands for it in the prompt. */
  readonly text: string;
  /** Number of an image's tokens along time, height and width, for M-RoPE. */
  readonly grid?: readonly [number, number, number] | undefined;
  readonly source: EmbeddingSource;
}

/** Default limit for the bytes of encoded media on the device. */
const MAX_ENCODED_BYTES = 256 * 2 ** 20;
/** Maximum number of bytes of preprocessed media that are not encoded yet. */
const MAX_PREPARED_BYTES = 128 * 2 ** 20;
/** Maximum number of bytes of the texts and grids kept of known media, a few kilobytes for each. */
const MAX_KNOWN_BYTES = 16 * 2 ** 20;

/** The parts of an {@linkcode EncodedMedia}, which owns the encoder. */
interface EncodedMediaParts {
  readonly medium: Medium;
  /**
   * Preprocesses a file.
   *
   * @throws {HearthError} `invalid_media` when it cannot be read, or the model does not support it.
   * @throws the signal's reason.
   */
  readonly prepare: (
    bytes: Uint8Array<ArrayBuffer>,
    signal: AbortSignal,
  ) => Promise<PreparedMedium>;
  readonly encoder: MediaEncoder;
  /** Number of patches along one side of an image token's square. */
  readonly mergeSize?: number;
  /** Counts the encoder rows that the medium's text in a prompt stands for. */
  readonly countRows: (text: string) => number;
  /** Device memory for cached rows; 256 MiB if absent. The rows of the last image or sound are always kept. */
  readonly maxEncodedBytes?: number | undefined;
}

/** The properties of a file that are remembered, by its key. */
type Known = Pick<PromptMedium, "text" | "grid">;

export class EncodedMedia {
  readonly metrics: MediaMetrics;
  readonly #parts: EncodedMediaParts;
  readonly #known = new ByteBudgetCache<Known>(MAX_KNOWN_BYTES);
  readonly #preparing = new SharedJobs<PreparedMedium>();
  readonly #prepared = new ByteBudgetCache<PreparedMedium>(MAX_PREPARED_BYTES);
  readonly #encoded: ByteBudgetCache<Tensor>;

  constructor(parts: EncodedMediaParts) {
    const { medium, maxEncodedBytes = MAX_ENCODED_BYTES } = parts;
    this.#parts = parts;
    this.#encoded = new ByteBudgetCache(maxEncodedBytes, (rows) => rows.dispose());
    this.metrics = new MediaMetrics(medium, () => this.#encoded.numBytes);
  }

  /**
   * Reads an image or a sound. Known files are recognised by the hash of their bytes, without decoding them.
   *
   * @throws {HearthError} `invalid_media`, naming the message part, when it cannot be read or is not supported.
   * @throws the signal's reason.
   */
  async open(
    { bytes, param }: Pick<ImagePart | AudioPart, "bytes" | "param">,
    signal: AbortSignal,
  ): Promise<PromptMedium> {
    const { medium } = this.#parts;
    this.metrics.received.inc();
    const key = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
    const source = { rows: () => this.#encodeRows(key, bytes) };
    const known = this.#known.get(key);
    if (known !== undefined) return { medium, key, source, ...known };
    try {
      const prepared = await this.#preparing.join(
        key,
        (signal) => this.#prepare(key, { bytes, signal }),
        signal,
      );
      return { medium, key, source, ...this.#remember(prepared) };
    } catch (error) {
      throw nameMedia(error, param);
    }
  }

  async dispose(): Promise<void> {
    this.#encoded.clear();
    await this.#parts.encoder.dispose();
  }

  async #encodeRows(key: string, bytes: Uint8Array<ArrayBuffer>): Promise<Tensor> {
    const known = this.#encoded.get(key);
    if (known !== undefined) return known;
    const { encoder, countRows } = this.#parts;
    const prepared = this.#prepared.get(key) ??
      await this.#prepare(key, { bytes, signal: new AbortController().signal });
    const rows = await encoder.encode(prepared.tensors, countRows(prepared.text));
    this.metrics.encoderRuns.inc();
    this.#prepared.delete(key);
    this.#encoded.set(key, rows, rows.size * (rows.type === "float16" ? 2 : 4));
    return rows;
  }

  async #prepare(
    key: string,
    { bytes, signal }: { bytes: Uint8Array<ArrayBuffer>; signal: AbortSignal },
  ): Promise<PreparedMedium> {
    const startMs = performance.now();
    const prepared = await this.#parts.prepare(bytes, signal);
    this.metrics.prepareSeconds.observe((performance.now() - startMs) / 1000);
    this.#prepared.set(key, prepared, countBytes(prepared));
    this.#known.set(key, this.#remember(prepared), 2 * prepared.text.length);
    return prepared;
  }

  #remember({ text, tensors }: PreparedMedium): Known {
    const patches = tensors["image_grid_thw"]?.data;
    if (patches === undefined) return { text };
    const [frames, rows, columns] = Array.from<number | bigint, number>(patches, Number);
    const { mergeSize = 1 } = this.#parts;
    return { text, grid: [frames!, rows! / mergeSize, columns! / mergeSize] };
  }
}

/** Words for a medium in the names and the help of metrics. */
const WORDS = {
  image: {
    noun: "image",
    plural: "Images",
    encoder: "vision",
    preparing: "reading, resizing and normalising an image, including the wait in the queue",
  },
  audio: {
    noun: "sound",
    plural: "Sounds",
    encoder: "audio",
    preparing: "decoding a sound and computing its features",
  },
} as const;

/** A model's Prometheus metrics about a medium, in addition to its engine's metrics. */
class MediaMetrics extends MetricSet {
  readonly received: prometheus.Counter;
  readonly encoderRuns: prometheus.Counter;
  readonly prepareSeconds: prometheus.Histogram;

  /** @param encodedBytes counts the bytes of encoded media on the device. */
  constructor(medium: Medium, encodedBytes: () => number) {
    super();
    const { noun, plural, encoder, preparing } = WORDS[medium];
    this.received = this.counter(`hearth_${noun}s_total`, `${plural} in requests.`);
    this.encoderRuns = this.counter(
      `hearth_${encoder}_encoder_runs_total`,
      `${plural} encoded because neither the prefix cache nor the cached rows had them.`,
    );
    this.prepareSeconds = this.histogram(
      `hearth_${noun}_prepare_seconds`,
      `Duration of ${preparing}.`,
    );
    this.gauge(
      `hearth_encoded_${noun}_bytes`,
      `Memory that encoded ${noun}s take.`,
      encodedBytes,
    );
  }
}

function countBytes({ tensors }: PreparedMedium): number {
  return Object.values(tensors).reduce((sum, { data }) => sum + data.byteLength, 0);
}
