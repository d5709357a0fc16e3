/**
 * The thread that reads PDF files: their pages as images, and their text.
 *
 * @module
 */
import "../../device/ort/no_location.ts";
import type { PageResolution } from "../../media/pdf/page_resolution.ts";
import { PdfDocument } from "../../media/pdf/pdf_document.ts";
import { encodePng } from "../../media/png.ts";
import { serveFunctions } from "../threads/worker_rpc.ts";

/** A file, which may be asked for page by page. */
export interface DocumentFile {
  /** Tells it from others. */
  readonly id: string;
  /** The file, in shared memory so that it is not copied with each page. */
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  /** The time that this call may take. */
  readonly maxMs: number;
}

/** A page of it. */
interface DocumentPage extends DocumentFile {
  /** The page, from 0 on. */
  readonly index: number;
}

/** The file that was last asked for stays open this long. */
const OPEN_MS = 10_000;

let open: { readonly id: string; readonly document: PdfDocument } | undefined;
let closing: ReturnType<typeof setTimeout> | undefined;

/** A result, and how long it took. */
export interface Timed<T> {
  readonly value: T;
  readonly ms: number;
}

const functions = {
  async countPages(file: DocumentFile): Promise<Timed<number>> {
    return await withDocument(file, ({ numPages }) => numPages);
  },
  /** @returns a PNG file. */
  async drawPage(
    { index, resolution, ...file }: DocumentPage & { readonly resolution: PageResolution },
  ): Promise<Timed<Uint8Array<ArrayBuffer>>> {
    const { maxMs } = file;
    const { value, ms } = await withDocument(
      file,
      (document) => document.renderPage(index, { resolution, maxMs }),
    );
    return { value: await encodePng(value), ms };
  },
  async readText({ index, ...file }: DocumentPage): Promise<Timed<string>> {
    const { maxMs } = file;
    return await withDocument(file, (document) => document.readText(index, { maxMs }));
  },
};

async function withDocument<T>(
  file: DocumentFile,
  work: (document: PdfDocument) => T,
): Promise<Timed<T>> {
  const startMs = performance.now();
  clearTimeout(closing);
  if (open?.id !== file.id) {
    close();
    open = { id: file.id, document: await PdfDocument.open(file.bytes, file) };
  }
  try {
    return { value: work(open.document), ms: performance.now() - startMs };
  } catch (error) {
    // What failed may be in no defined state.
    open = undefined;
    throw error;
  } finally {
    closing = setTimeout(close, OPEN_MS);
  }
}

function close(): void {
  open?.document[Symbol.dispose]();
  open = undefined;
}

export type DocumentThread = typeof functions;

serveFunctions(functions);
