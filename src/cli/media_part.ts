/**
 * Files that are given to a model, as parts of a message.
 *
 * @module
 */
import { isPdf } from "../media/signature.ts";
import type { DocumentPart, ImagePart } from "../models/task.ts";

/** A file that is media: a PDF, or else an image. @param file.name for error messages. */
export function toMediaPart(
  { name: param, bytes }: { readonly name: string; readonly bytes: Uint8Array<ArrayBuffer> },
): DocumentPart | ImagePart {
  return { type: isPdf(bytes) ? "document" : "image", bytes, param };
}
