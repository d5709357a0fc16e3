/**
 * The images or sounds of requests: identified by content, preprocessed on arrival, and encoded when a step needs their
 * rows.
 *
 * @module
 */
import type * as prometheus from "prom-client";
import { MetricSet } from "../../base/metric_set.ts";
import type { Tensor } from "../../device/ort/ort.ts";
import { ByteBudgetCache, nameMedia, SharedJobs } from "../threads/active_requests.ts";
import type { AudioPart, ImagePart } from "../task.ts";
import type { MediaEncoder, Medium } from "../media_encoder.ts";
import type { PreparedMedium } from "../images/vision_processor.ts";
import type { PromptMedium } from "./vision_prompt.ts";

/** Default limit for the bytes of encoded media on the device. */
const MAX_ENCODED_BYTES = 256 * 2 ** 20;
/** Most bytes of preprocessed media that are not encoded yet. */
const MAX_PREPARED_BYTES = 128 * 2 ** 20;
/** Most bytes of what is kept about known media, a few kilobytes each. */
const MAX_KNOWN_BYTES = 16 * 2 ** 20;

/** The new object owns the encoder. */
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
  /** Number of encoder rows that a text in the prompt stands for. */
  readonly numRows: (text: string) => number;
  /** Device memory for cached rows; 256 MiB if absent. Those of the last image or sound are always kept. */
  readonly maxEncodedBytes?: number | undefined;
}

/** What is remembered of a file besides its content. */
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
   * Reads an image or a sound. A known one is recognised by its bytes, without decoding it.
   *
   * @throws {HearthError} `invalid_media`, naming the part, when it cannot be read, or the model does not support it.
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
    const { encoder, numRows } = this.#parts;
    const prepared = this.#prepared.get(key) ??
      await this.#prepare(key, { bytes, signal: new AbortController().signal });
    const rows = await encoder.encode(prepared.tensors, numRows(prepared.text));
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

/** The words of metrics about a medium. */
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

/** A model's Prometheus metrics about a medium, besides those of its engine. */
class MediaMetrics extends MetricSet {
  readonly received: prometheus.Counter;
  readonly encoderRuns: prometheus.Counter;
  readonly prepareSeconds: prometheus.Histogram;

  /** @param encodedBytes bytes of encoded media. */
  constructor(medium: Medium, encodedBytes: () => number) {
    super();
    const { noun, plural, encoder, preparing } = WORDS[medium];
    this.received = this.counter(`hearth_${noun}s_total`, `${plural} in requests.`);
    this.encoderRuns = this.counter(
      `hearth_${encoder}_encoder_runs_total`,
      `${plural} encoded: those found neither in the prefix cache nor among the cached rows.`,
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
