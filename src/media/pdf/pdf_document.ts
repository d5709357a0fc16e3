/**
 * Reads PDF files (ISO 32000): their pages as pixels, and their text.
 *
 * @module
 */
import { collectGarbageNow } from "../../base/memory.ts";
import { HearthError, invalidMedia } from "../../base/errors.ts";
import type { Pixels } from "../pixels.ts";
import { callWithin, loadPdfium, type Pdfium, TimeLimitError } from "./pdfium.ts";

/** Default time limit for a page, and for opening a file. */
export const MAX_PAGE_MS = 20_000;

/** PDFium's error codes. */
const PASSWORD_ERROR = 4;
const SECURITY_ERROR = 5;

/** PDFium's format with three bytes a pixel. */
const FORMAT_RGB = 2;
/** Flag that puts red before blue in each pixel. */
const RED_FIRST = 0x10;
const WHITE = 0xffff_ffff;
/** The annotation type of form fields. */
const FIELD = 20;
/** Flattens a page as it appears on a screen, not as in print. */
const FLATTEN_FOR_DISPLAY = 0;
/** PDFium's result if flattening changed the page. */
const FLATTENED = 1;

/** An instance with more memory than this is dropped, because WebAssembly memory never shrinks. */
const MAX_KEPT_BYTES = 64 * 2 ** 20;

/** The instance kept for the next file. */
let idle: Pdfium | undefined;
/** Whether an instance was dropped whose memory V8 would otherwise keep for a long time. */
let isMemoryLeft = false;

/** An open file. */
export class PdfDocument implements Disposable {
  readonly numPages: number;
  readonly #file: OpenedFile;
  /** Absent after the document is closed, and while a page is read: an interrupted instance must not be used again. */
  #pdfium: Pdfium | undefined;

  private constructor(pdfium: Pdfium, file: OpenedFile) {
    this.#pdfium = pdfium;
    this.#file = file;
    this.numPages = file.numPages;
  }

  /**
   * Opens a copy of a file.
   *
   * @param options.maxMs time limit.
   * @throws {HearthError} `invalid_media` when it is encrypted, damaged, without pages, or takes too long.
   */
  static async open(
    file: Uint8Array,
    { maxMs }: { readonly maxMs: number },
  ): Promise<PdfDocument> {
    if (isMemoryLeft) collectGarbageNow();
    isMemoryLeft = false;
    const pdfium = idle ?? await loadPdfium();
    // There is no await from here on, so that no other file can use the instance.
    idle = undefined;
    const opened = attempt(() => openFile(pdfium, file), { maxMs, what: "The PDF" });
    if (typeof opened !== "string") return new PdfDocument(pdfium, opened);
    keep(pdfium);
    throw invalidMedia(opened);
  }

  /**
   * Draws a page on white, rotated and cropped as the file says.
   *
   * @param index counted from 0.
   * @returns 3 channels; the caller owns them.
   * @throws {HearthError} `invalid_media` when the page is damaged, or takes too long. The document is then closed.
   */
  renderPage(
    index: number,
    { resolution, maxMs }: { readonly resolution: PageResolution; readonly maxMs: number },
  ): Pixels {
    return this.#onPage(index, maxMs, (page, pdfium) => drawPage(page, pdfium, resolution));
  }

  /**
   * The text of a page, including its form fields; empty if it has none.
   *
   * @param index counted from 0.
   * @throws {HearthError} as {@linkcode renderPage}.
   */
  readText(index: number, { maxMs }: { readonly maxMs: number }): string {
    return this.#onPage(index, maxMs, readPageText);
  }

  /** Closes the document, and keeps the instance for the next one. */
  [Symbol.dispose](): void {
    const pdfium = this.#pdfium;
    if (pdfium === undefined) return;
    this.#pdfium = undefined;
    pdfium.api.FPDF_CloseDocument(this.#file.document);
    pdfium.api.pdfium.wasmExports.free(this.#file.pointer);
    keep(pdfium);
  }

  #onPage<T>(index: number, maxMs: number, work: (page: number, pdfium: Pdfium) => T): T {
    const pdfium = this.#pdfium;
    if (pdfium === undefined) throw new Error("The PDF is closed.");
    this.#pdfium = undefined;
    const result = attempt(() => {
      const page = loadFlat(pdfium, this.#file.document, index);
      const result = work(page, pdfium);
      pdfium.api.FPDF_ClosePage(page);
      return result;
    }, { maxMs, what: `Page ${index + 1} of the PDF` });
    this.#pdfium = pdfium;
    return result;
  }
}

interface OpenedFile {
  readonly document: number;
  readonly numPages: number;
  /** Address of the file's bytes. */
  readonly pointer: number;
}

/** @returns the open file, or why it cannot be opened. */
function openFile({ api, memory }: Pdfium, file: Uint8Array): OpenedFile | string {
  const { malloc, free } = api.pdfium.wasmExports;
  const pointer = malloc(file.length);
  if (pointer === 0) return "The PDF is too large to be opened.";
  new Uint8Array(memory.buffer).set(file, pointer);
  const document = api.FPDF_LoadMemDocument(pointer, file.length, "");
  const failure = document === 0 ? describeFailure(api.FPDF_GetLastError()) : undefined;
  const numPages = document === 0 ? 0 : api.FPDF_GetPageCount(document);
  if (numPages > 0) return { document, numPages, pointer };
  if (document !== 0) api.FPDF_CloseDocument(document);
  free(pointer);
  return failure ?? "The PDF has no pages.";
}

function describeFailure(code: number): string {
  switch (code) {
    case PASSWORD_ERROR:
      return "The PDF is encrypted and needs a password: send a decrypted copy, made for example with " +
        "`qpdf --decrypt --password=… in.pdf out.pdf`.";
    case SECURITY_ERROR:
      return "The PDF is encrypted with a method that is not supported.";
    default:
      return "The PDF is damaged or cut off and cannot be read.";
  }
}

/** Loads a page, and flattens its annotations and form fields into it, which are otherwise drawn separately. */
function loadFlat({ api }: Pdfium, document: number, index: number): number {
  const load = () => {
    const page = api.FPDF_LoadPage(document, index);
    if (page === 0) throw new Error("PDFium cannot load the page.");
    return page;
  };
  const page = load();
  drawFields(api, page);
  if (api.FPDFPage_Flatten(page, FLATTEN_FOR_DISPLAY) !== FLATTENED) return page;
  api.FPDF_ClosePage(page);
  return load();
}

/** Draws form fields that a program filled in without drawing them. */
function drawFields(api: Pdfium["api"], page: number): void {
  const numAnnotations = api.FPDFPage_GetAnnotCount(page);
  for (let index = 0; index < numAnnotations; index++) {
    const annotation = api.FPDFPage_GetAnnot(page, index);
    if (annotation === 0) continue;
    const isField = api.FPDFAnnot_GetSubtype(annotation) === FIELD;
    if (isField && !api.FPDFAnnot_HasKey(annotation, "AP")) {
      api.EPDFAnnot_GenerateFormFieldAP(annotation);
    }
    api.FPDFPage_CloseAnnot(annotation);
  }
}

function drawPage(
  page: number,
  { api, memory }: Pdfium,
  resolution: PageResolution,
): Pixels {
  const points = { width: api.FPDF_GetPageWidthF(page), height: api.FPDF_GetPageHeightF(page) };
  const { width, height } = sizePage(points, resolution);
  const bitmap = api.FPDFBitmap_CreateEx(width, height, FORMAT_RGB, 0, 0);
  if (bitmap === 0) throw new Error("There is not enough memory for the page's pixels.");
  api.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, WHITE);
  const rotation = 0;
  api.FPDF_RenderPageBitmap(
    ...[bitmap, page, 0, 0, width, height, rotation, RED_FIRST] as const,
  );
  const stride = api.FPDFBitmap_GetStride(bitmap);
  const rows = new Uint8Array(memory.buffer, api.FPDFBitmap_GetBuffer(bitmap), stride * height);
  const data = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    data.set(rows.subarray(y * stride, y * stride + width * 3), y * width * 3);
  }
  api.FPDFBitmap_Destroy(bitmap);
  return { width, height, channels: 3, data };
}

function readPageText(page: number, { api, memory }: Pdfium): string {
  const text = api.FPDFText_LoadPage(page);
  if (text === 0) throw new Error("PDFium cannot read the page's text.");
  const numChars = api.FPDFText_CountChars(text);
  const { malloc, free } = api.pdfium.wasmExports;
  // UTF-16 with a final zero; a character may be two units.
  const pointer = malloc((2 * numChars + 1) * 2);
  if (pointer === 0) throw new Error("There is not enough memory for the page's text.");
  const numUnits = api.FPDFText_GetText(text, 0, numChars, pointer) - 1;
  const units = new Uint16Array(memory.buffer, pointer, Math.max(0, numUnits)).slice();
  free(pointer);
  api.FPDFText_ClosePage(text);
  return cleanText(new TextDecoder("utf-16le").decode(units));
}

/** Joins words that are split at line ends. PDFium marks each split by U+FFFE or a control character. */
function cleanText(text: string): string {
  return text.replaceAll("\uFFFE", "").replaceAll(/\r\n?/g, "\n").replaceAll(/[^\P{Cc}\n\t]/gu, "")
    .replaceAll(/[ \t]+$/gm, "").trim();
}

/** Calls PDFium. Any error that it throws means that the file is damaged. */
function attempt<T>(
  call: () => T,
  { maxMs, what }: { readonly maxMs: number; readonly what: string },
): T {
  try {
    return callWithin(maxMs, call);
  } catch (error) {
    if (error instanceof HearthError) throw error;
    isMemoryLeft = true;
    if (error instanceof TimeLimitError) {
      const seconds = Math.round(maxMs / 1000);
      throw invalidMedia(`${what} takes longer to read than the ${seconds} s that are allowed.`);
    }
    throw invalidMedia(`${what} is damaged, or needs too much memory, and cannot be read.`, error);
  }
}

function keep(pdfium: Pdfium): void {
  if (pdfium.memory.buffer.byteLength <= MAX_KEPT_BYTES) idle = pdfium;
  else isMemoryLeft = true;
}

/** The resolution that suits a model; the strictest limit decides. */
export interface PageResolution {
  /** Pixels per inch. */
  readonly dpi: number;
  /** Maximum number of pixels on the longer side. */
  readonly maxSide?: number | undefined;
  /** Maximum number of pixels of the page. */
  readonly maxPixels?: number | undefined;
}

/** Width and height, in points of 1/72 inch or in pixels. */
interface PageSize {
  readonly width: number;
  readonly height: number;
}

/** The longest side that is drawn, whatever the model asks for. */
const MAX_SIDE = 16_384;
const POINTS_PER_INCH = 72;

/**
 * Computes the size of a page in pixels.
 *
 * @param page size in points.
 * @returns whole numbers of at least 1.
 * @example
 * ```ts
 * import { sizePage } from "./pdf_document.ts";
 * import assert from "node:assert/strict";
 * assert.deepEqual(sizePage({ width: 595, height: 842 }, { dpi: 144 }), { width: 1190, height: 1684 });
 * assert.deepEqual(sizePage({ width: 595, height: 842 }, { dpi: 200, maxSide: 1024 }), { width: 724, height: 1024 });
 * ```
 */
export function sizePage(
  { width, height }: PageSize,
  { dpi, maxSide = MAX_SIDE, maxPixels = Infinity }: PageResolution,
): PageSize {
  const scale = Math.min(
    dpi / POINTS_PER_INCH,
    Math.min(maxSide, MAX_SIDE) / Math.max(width, height),
    Math.sqrt(maxPixels / (width * height)),
  );
  // The tiny offset keeps rounding errors from adding a pixel.
  const toPixels = (points: number) => Math.max(1, Math.ceil(points * scale - 1e-6));
  const size = { width: toPixels(width), height: toPixels(height) };
  if (size.width * size.height <= maxPixels) return size;
  return { width: Math.max(1, size.width - 1), height: Math.max(1, size.height - 1) };
}
