/**
 * The entry point of threads that read PDF files: their pages as images, and their text.
 *
 * @module
 */
import "../../device/ort/no_location.ts";
import { type PageResolution, PdfDocument } from "../../media/pdf/pdf_document.ts";
import { encodePng } from "../../media/image/png.ts";
import { serveFunctions } from "../threads/worker_pool.ts";

/** A file from which pages are read one call at a time. */
export interface DocumentFile {
  /** Identifies the file across calls. */
  readonly id: string;
  /** The file's content, in shared memory so that it is not copied with each call. */
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  /** Maximum time that the call may take. */
  readonly maxMs: number;
}

/** A page of a file. */
interface DocumentPage extends DocumentFile {
  /** Index of the page, counted from 0. */
  readonly index: number;
}

/** Time for which a file stays open after its last call. */
const OPEN_MS = 10_000;

let open: { readonly id: string; readonly document: PdfDocument } | undefined;
let closing: ReturnType<typeof setTimeout> | undefined;

/** A result, with the milliseconds that it took. */
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
    // After an error the document may be in an undefined state.
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
