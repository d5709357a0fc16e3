/**
 * Files attached to a question.
 *
 * @module
 */
import { IMAGE_FORMATS, MAX_IN_JSON_MIB, readDataUrl, refuseLarge } from "../controls.tsx";
import type { Attachment } from "./turns.ts";

/** Largest text file: a longer text fits into no context. */
const MAX_TEXT_MIB = 4;

/** The attached files in the form in which they are sent. */
export interface Attached {
  readonly images: readonly string[];
  readonly files: readonly Attachment[];
}

/** What the model takes besides text files and PDFs. */
interface Taken {
  readonly takesImages: boolean;
  readonly takesAudio: boolean;
}

/**
 * Reads images, recordings, PDFs and text files.
 *
 * @throws {Error} naming the first file that cannot be sent, and why.
 */
export async function readAttachments(
  files: readonly File[],
  taken: Taken,
): Promise<Attached> {
  const images: string[] = [];
  const documents: Attachment[] = [];
  for (const file of files) {
    if (isImage(file)) {
      if (!taken.takesImages) {
        throw new Error(
          `${file.name} was not added: this model cannot read images, only text.`,
        );
      }
      requireSize(file, MAX_IN_JSON_MIB);
      images.push(await readDataUrl(file));
    } else if (file.type === "application/pdf" || /\.pdf$/i.test(file.name)) {
      requireSize(file, MAX_IN_JSON_MIB);
      const dataUrl = await readDataUrl(new Blob([file], { type: "application/pdf" }));
      documents.push({ name: file.name, dataUrl });
    } else if (taken.takesAudio && /^(?:audio|video)\//.test(file.type)) {
      requireSize(file, MAX_IN_JSON_MIB);
      documents.push({ name: file.name, dataUrl: await readDataUrl(file) });
    } else {
      documents.push({ name: file.name, text: await readText(file, taken) });
    }
  }
  return { images, files: documents };
}

/** Whether a file is an image. Browsers do not know the type of some images. */
function isImage({ type, name }: File): boolean {
  return type.startsWith("image/") && type !== "image/svg+xml" ||
    /\.(?:heic|heif|avif|tiff?|jxl)$/i.test(name);
}

function requireSize(file: File, maxMib: number): void {
  const refusal = refuseLarge(file, maxMib);
  if (refusal !== undefined) throw new Error(refusal);
}

async function readText(file: File, { takesImages, takesAudio }: Taken): Promise<string> {
  const bytes = new Uint8Array(await file.slice(0, MAX_TEXT_MIB * 2 ** 20).arrayBuffer());
  const text = decodeText(bytes);
  if (text === undefined) {
    const images = takesImages ? `images (${IMAGE_FORMATS}), ` : "";
    const sounds = takesAudio ? "recordings, " : "";
    throw new Error(
      `${file.name} is neither text nor a PDF. Add ${images}${sounds}text files or PDFs.`,
    );
  }
  requireSize(file, MAX_TEXT_MIB);
  return text;
}

/** Decodes UTF-8, or UTF-16 with a byte order mark; `undefined` if it is not text. */
function decodeText(bytes: Uint8Array): string | undefined {
  const mark = bytes[0]! << 8 | bytes[1]!;
  const encoding = mark === 0xfffe ? "utf-16le" : mark === 0xfeff ? "utf-16be" : "utf-8";
  try {
    // Only the beginning of the file was read, which may end within a character.
    const text = new TextDecoder(encoding, { fatal: true }).decode(bytes, { stream: true });
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}
