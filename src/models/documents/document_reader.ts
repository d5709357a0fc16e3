/**
 * Reads PDF files on separate threads (`document_thread.ts`).
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import { MAX_PAGE_MS, type PageResolution } from "../../media/pdf/pdf_document.ts";
import { WorkerPool, WorkerRpc } from "../threads/worker_pool.ts";
import type { DocumentFile, DocumentThread, Timed } from "./document_thread.ts";
import type { ModelKind } from "../../base/config.ts";
import type { Json } from "../../hub/model_folder.ts";

/** Default for the maximum number of pages of a document. */
const DEFAULT_MAX_PAGES = 100;
/** Maximum time for all pages of a file together. */
const MAX_FILE_MS = 120_000;
const MAX_THREADS = 2;

/** Reads PDF files. Its threads start with the first file. */
export class DocumentReader {
  readonly #maxPages: number;
  readonly #workers: WorkerPool<DocumentThread>;

  constructor({ maxPages = DEFAULT_MAX_PAGES }: { readonly maxPages?: number | undefined }) {
    this.#maxPages = maxPages;
    const module = new URL("./document_thread.ts", import.meta.url);
    this.#workers = new WorkerPool({
      size: MAX_THREADS,
      // Few requests have documents, and PDFium takes memory.
      numKept: 0,
      start: () => new WorkerRpc<DocumentThread>(module, "thread that reads PDF files"),
    });
  }

  /**
   * Opens a file.
   *
   * @throws {HearthError} `invalid_media` when it cannot be read, or has too many pages.
   * @throws the signal's reason.
   */
  async open(file: Uint8Array, signal: AbortSignal): Promise<PdfPages> {
    const pages = await PdfPages.open(file, { workers: this.#workers, signal });
    if (pages.length <= this.#maxPages) return pages;
    throw new HearthError(
      "invalid_media",
      `The PDF has ${pages.length} pages; at most ${this.#maxPages} are allowed (--max-pdf-pages).`,
    );
  }

  close(): void {
    this.#workers.close();
  }
}

interface Workers {
  readonly workers: WorkerPool<DocumentThread>;
  readonly signal: AbortSignal;
}

/** The pages of an open file. All methods throw like {@linkcode DocumentReader.open}. */
export class PdfPages {
  readonly #id = crypto.randomUUID();
  readonly #bytes: Uint8Array<SharedArrayBuffer>;
  readonly #workers: WorkerPool<DocumentThread>;
  readonly #signal: AbortSignal;
  #leftMs = MAX_FILE_MS;
  #length = 0;

  private constructor(file: Uint8Array, { workers, signal }: Workers) {
    this.#bytes = new Uint8Array(new SharedArrayBuffer(file.length));
    this.#bytes.set(file);
    this.#workers = workers;
    this.#signal = signal;
  }

  static async open(file: Uint8Array, workers: Workers): Promise<PdfPages> {
    const pages = new PdfPages(file, workers);
    pages.#length = await pages.#timed((file, options) =>
      pages.#workers.call("countPages", file, options)
    );
    return pages;
  }

  get length(): number {
    return this.#length;
  }

  /**
   * Draws a page as a PNG file.
   *
   * @param index counted from 0.
   */
  async draw(index: number, resolution: PageResolution): Promise<Uint8Array<ArrayBuffer>> {
    return await this.#timed((file, options) =>
      this.#workers.call("drawPage", { ...file, index, resolution }, options)
    );
  }

  /**
   * Reads the text layer of a page; empty if it has none.
   *
   * @param index counted from 0.
   */
  async readText(index: number): Promise<string> {
    return await this.#timed((file, options) =>
      this.#workers.call("readText", { ...file, index }, options)
    );
  }

  /** Makes a call within the time that remains for the file. */
  async #timed<T>(
    call: (file: DocumentFile, options: { signal: AbortSignal }) => Promise<Timed<T>>,
  ): Promise<T> {
    const maxMs = Math.min(MAX_PAGE_MS, this.#leftMs);
    if (maxMs <= 0) {
      const seconds = MAX_FILE_MS / 1000;
      throw new HearthError(
        "invalid_media",
        `Reading the PDF takes longer than the allowed ${seconds} s.`,
      );
    }
    const file = { id: this.#id, bytes: this.#bytes, maxMs };
    const { value, ms } = await call(file, { signal: this.#signal });
    this.#leftMs -= ms;
    return value;
  }
}

/** Resolution for OCR, as used by other OCR tools: it makes small print legible. */
const READING_DPI = 200;
/** Resolution for questions about a page. A higher one would cost more tokens than it is worth. */
const LOOKING_DPI = 144;
/** A `longest_edge` above this is taken as a number of pixels, for which some preprocessors use that name. */
const MAX_EDGE = 16_384;
/**
 * Preprocessors with a fixed size shrink the longer side of a page to that size. The page is drawn this many times
 * larger, so that its shorter side has enough pixels.
 */
const PAGE_ASPECT = Math.SQRT2;

/**
 * Determines the lowest resolution at which the model's preprocessor loses no detail when it resizes the page.
 *
 * @param preprocessor the model's `preprocessor_config.json`; empty if it has none.
 */
export function readPageResolution(
  preprocessor: Json,
  { kind, maxImagePixels }: {
    readonly kind: ModelKind;
    readonly maxImagePixels?: number | undefined;
  },
): PageResolution {
  const size = (preprocessor["size"] ?? {}) as Json;
  const longest = toNumber(size["longest_edge"]);
  const isEdge = longest !== undefined && longest <= MAX_EDGE;
  const fixed = Math.max(toNumber(size["width"]) ?? 0, toNumber(size["height"]) ?? 0);
  const pixels = toNumber(preprocessor["max_pixels"]) ?? toNumber(size["max_pixels"]) ??
    (isEdge ? undefined : longest) ?? Infinity;
  return {
    dpi: kind === "ocr" ? READING_DPI : LOOKING_DPI,
    maxSide: isEdge ? longest : fixed > 0 ? Math.ceil(fixed * PAGE_ASPECT) : undefined,
    maxPixels: Math.min(pixels, maxImagePixels ?? Infinity),
  };
}

function toNumber(value: unknown): number | undefined {
  return typeof value === "number" && value > 0 ? value : undefined;
}
