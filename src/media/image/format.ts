/**
 * The interface of an image format, and the error for a damaged file.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import type { Pixels } from "../pixels.ts";
import type { Orientation } from "./orientation.ts";

/** The content of a file's header. */
export interface ImageSize {
  /** Width as stored. With orientations 5 to 8, the image is shown turned by a quarter. */
  readonly width: number;
  /** Height as stored. */
  readonly height: number;
  readonly orientation: Orientation;
}

/** A format of image files. Any error thrown by its functions means that the file is damaged. */
export interface ImageFormat {
  readonly name: string;
  /** Whether a file has this format, by its first bytes. */
  readonly matches: (file: Uint8Array) => boolean;
  /** Reads the size from the header, without allocating memory for pixels. */
  readonly readSize: (file: Uint8Array<ArrayBuffer>) => ImageSize;
  /**
   * Decodes the first image as it is stored, ignoring its orientation.
   *
   * @param size result of `readSize`; the decoded image must have this size.
   */
  readonly decode: (file: Uint8Array<ArrayBuffer>, size: ImageSize) => Pixels | Promise<Pixels>;
}

/** The error for a file that is not an image, or that is incomplete. */
export function invalidImage(message: string, cause?: unknown): HearthError {
  return new HearthError("invalid_media", message, { cause });
}

/** A view that reads numbers of a file, and throws beyond its end. */
export function viewData(file: Uint8Array): DataView {
  return new DataView(file.buffer, file.byteOffset, file.byteLength);
}
