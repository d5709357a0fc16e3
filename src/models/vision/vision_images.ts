/**
 * The images of requests: identified by content, preprocessed on arrival, and encoded when a step needs their rows.
 *
 * @module
 */
import { MetricSet } from "../../base/metric_set.ts";
import type { Tensor } from "../../device/ort/ort.ts";
import type { ImagePreprocessor } from "../images/image_preprocessor.ts";
import { ByteBudgetCache, nameMedia, SharedJobs } from "../threads/active_requests.ts";
import type { ImagePart } from "../task.ts";
import type { MediaEncoder } from "../media_encoder.ts";
import type { PreparedImage } from "../images/vision_processor.ts";
import type { PromptImage } from "./vision_prompt.ts";

/** Default limit for the bytes of encoded images on the device. */
const MAX_ENCODED_BYTES = 256 * 2 ** 20;
/** Most bytes of preprocessed images that are not encoded yet. */
const MAX_PREPARED_BYTES = 128 * 2 ** 20;
/** Most bytes of what is kept about known images, a few kilobytes each. */
const MAX_KNOWN_BYTES = 16 * 2 ** 20;

/** The new object owns preprocessor and encoder. */
interface VisionImagesParts {
  readonly imagePreprocessor: ImagePreprocessor;
  readonly encoder: MediaEncoder;
  /** Number of patches along one side of a token's square. */
  readonly mergeSize: number;
  /** Number of encoder rows that an image's text in the prompt stands for. */
  readonly numRows: (image: Pick<PromptImage, "text">) => number;
  /** Device memory for cached rows; 256 MiB if absent. Those of the last image are always kept. */
  readonly maxEncodedBytes?: number | undefined;
}

/** What is remembered of an image besides its pixels. */
type Known = Pick<PromptImage, "text" | "grid">;

export class VisionImages {
  readonly metrics = new VisionMetrics(() => this.#encoded.numBytes);
  readonly #parts: VisionImagesParts;
  readonly #known = new ByteBudgetCache<Known>(MAX_KNOWN_BYTES);
  readonly #preparing = new SharedJobs<PreparedImage>();
  readonly #prepared = new ByteBudgetCache<PreparedImage>(MAX_PREPARED_BYTES);
  readonly #encoded: ByteBudgetCache<Tensor>;

  constructor(parts: VisionImagesParts) {
    const { maxEncodedBytes = MAX_ENCODED_BYTES } = parts;
    this.#parts = parts;
    this.#encoded = new ByteBudgetCache(maxEncodedBytes, (rows) => rows.dispose());
  }

  /**
   * Reads an image. A known image is recognised by its bytes, without decoding it.
   *
   * @throws {HearthError} `invalid_media`, naming the part, when it cannot be read, or the model does not support it.
   * @throws the signal's reason.
   */
  async open({ bytes, param }: ImagePart, signal: AbortSignal): Promise<PromptImage> {
    this.metrics.images.inc();
    const key = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
    const source = { rows: () => this.#encodeRows(key, bytes) };
    const known = this.#known.get(key);
    if (known !== undefined) return { key, source, ...known };
    try {
      const prepared = await this.#preparing.join(
        key,
        (signal) => this.#prepare(key, { bytes, signal }),
        signal,
      );
      return { key, source, ...this.#remember(prepared) };
    } catch (error) {
      throw nameMedia(error, param);
    }
  }

  async dispose(): Promise<void> {
    this.#encoded.clear();
    this.#parts.imagePreprocessor.close();
    await this.#parts.encoder.dispose();
  }

  async #encodeRows(key: string, bytes: Uint8Array<ArrayBuffer>): Promise<Tensor> {
    const known = this.#encoded.get(key);
    if (known !== undefined) return known;
    const prepared = this.#prepared.get(key) ??
      await this.#prepare(key, { bytes, signal: new AbortController().signal });
    const rows = await this.#parts.encoder.encode(prepared.tensors, this.#parts.numRows(prepared));
    this.metrics.encoderRuns.inc();
    this.#prepared.delete(key);
    this.#encoded.set(key, rows, rows.size * (rows.type === "float16" ? 2 : 4));
    return rows;
  }

  async #prepare(
    key: string,
    { bytes, signal }: { bytes: Uint8Array<ArrayBuffer>; signal: AbortSignal },
  ): Promise<PreparedImage> {
    const startMs = performance.now();
    const prepared = await this.#parts.imagePreprocessor.call("prepare", { bytes }, { signal });
    this.metrics.prepareSeconds.observe((performance.now() - startMs) / 1000);
    this.#prepared.set(key, prepared, countBytes(prepared));
    this.#known.set(key, this.#remember(prepared), 2 * prepared.text.length);
    return prepared;
  }

  #remember({ text, tensors }: PreparedImage): Known {
    const patches = tensors["image_grid_thw"]?.data;
    if (patches === undefined) return { text };
    const [frames, rows, columns] = Array.from<number | bigint, number>(patches, Number);
    const { mergeSize } = this.#parts;
    return { text, grid: [frames!, rows! / mergeSize, columns! / mergeSize] };
  }
}

/** A vision model's Prometheus metrics, besides those of its engine. */
class VisionMetrics extends MetricSet {
  readonly images = this.counter("hearth_images_total", "Images in requests.");
  readonly encoderRuns = this.counter(
    "hearth_vision_encoder_runs_total",
    "Images encoded: those found neither in the prefix cache nor among the cached rows.",
  );
  readonly prepareSeconds = this.histogram(
    "hearth_image_prepare_seconds",
    "Duration of reading, resizing and normalising an image, including the wait in the queue.",
  );

  /** @param featureBytes bytes of encoded images. */
  constructor(featureBytes: () => number) {
    super();
    this.gauge("hearth_encoded_image_bytes", "Memory that encoded images take.", featureBytes);
  }
}

function countBytes({ tensors }: PreparedImage): number {
  return Object.values(tensors).reduce((sum, { data }) => sum + data.byteLength, 0);
}
