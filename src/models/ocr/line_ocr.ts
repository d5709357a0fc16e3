/**
 * OCR models that find lines of text and read each (PP-OCR), through chat: each line of the answer is a row of the
 * image.
 *
 * @module
 */
import type { Registry } from "prom-client";
import { HearthError } from "../../errors.ts";
import { MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import { numPixelsOf } from "../../media/image_header.ts";
import { LineOcrMetrics } from "./line_ocr_metrics.ts";
import type { LineReader } from "./line_reader.ts";
import type { ImagePreprocessor } from "./image_preprocessor.ts";
import { type Model, requireTask } from "../model.ts";
import { readOcrRequest } from "./ocr_request.ts";
import { ActiveRequests } from "../active_requests.ts";
import { RowWriter } from "./row_writer.ts";
import type { ChatEvent, ChatTask, ImagePart, Task } from "../task.ts";

/** The parts of such a model; it owns all of them. */
export interface LineOcrModelParts {
  readonly reader: LineReader;
  readonly imagePreprocessor: ImagePreprocessor;
  /** Most requests at a time. */
  readonly maxRequests: number;
}

/** A running request. */
interface Work {
  readonly task: ChatTask;
  readonly image: ImagePart;
  /** The requested script. */
  readonly script: string | undefined;
  readonly emit: (event: ChatEvent) => void;
  readonly signal: AbortSignal;
}

export class LineOcrModel implements Model {
  readonly kind = "ocr";
  readonly dtype = "fp32";
  readonly contextLength = undefined;
  readonly maxSequences: number;
  readonly #reader: LineReader;
  readonly #imagePreprocessor: ImagePreprocessor;
  readonly #metrics: LineOcrMetrics;
  readonly #requests: ActiveRequests;

  constructor({ reader, imagePreprocessor, maxRequests }: LineOcrModelParts) {
    this.#reader = reader;
    this.#imagePreprocessor = imagePreprocessor;
    this.maxSequences = maxRequests;
    this.#requests = new ActiveRequests(maxRequests, { maxSmall: MAX_SMALL_IMAGE_PIXELS });
    this.#metrics = new LineOcrMetrics(() => this.#requests.counts);
  }

  get metrics(): Registry {
    return this.#metrics.registry;
  }

  start(task: Task, emit: (event: ChatEvent) => void): () => void {
    requireTask(task, "chat");
    const { image, text } = readOcrRequest(task.messages);
    const { n } = task.options;
    if (n !== 1) {
      throw new HearthError("invalid_value", `n: this model gives 1 answer, saw ${n}.`, {
        param: "n",
      });
    }
    // Any other text is an instruction, which this model ignores.
    const script = this.#reader.scripts.find((name) => name === text.toLowerCase());
    return this.#requests.start({
      requestId: task.requestId,
      what: "request",
      emit,
      work: numPixelsOf(image.bytes),
      answer: (signal) => this.#answer({ task, image, script, emit, signal }),
    });
  }

  async dispose(): Promise<void> {
    this.#requests.cancel();
    await this.#requests.settle();
    this.#imagePreprocessor.close();
    await this.#reader.dispose();
  }

  async #answer({ task, image, script, emit, signal }: Work): Promise<void> {
    const startMs = performance.now();
    const pixels = await this.#imagePreprocessor.decode(image, signal);
    signal.throwIfAborted();
    emit({ type: "admitted" });
    const numTop = task.options.topLogprobs ?? 0;
    const rows = this.#reader.read(pixels, { script, numTop, signal });
    const writer = new RowWriter(task, emit);
    let numLines = 0;
    for await (const row of rows) {
      signal.throwIfAborted();
      numLines += row.lines.length;
      if (!writer.write(row)) break;
    }
    writer.end();
    this.#metrics.observe({ numLines, durationMs: performance.now() - startMs });
  }
}
