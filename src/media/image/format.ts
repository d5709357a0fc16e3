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
  /** Pixels as stored: with orientations 5 to 8 the image is shown turned by a quarter. */
  readonly width: number;
  /** Pixels as stored. */
  readonly height: number;
  readonly orientation: Orientation;
}

/** A format of image files. Any error of its functions means that the file is damaged. */
export interface ImageFormat {
  readonly name: string;
  /** Whether a file is of this format, by its first bytes. */
  readonly matches: (file: Uint8Array) => boolean;
  /** Reads the header; nothing is allocated. */
  readonly readSize: (file: Uint8Array<ArrayBuffer>) => ImageSize;
  /**
   * Decodes the first image as it is stored, not turned yet.
   *
   * @param size result of `readSize`; the decoded image must have this size.
   */
  readonly decode: (file: Uint8Array<ArrayBuffer>, size: ImageSize) => Pixels | Promise<Pixels>;
}

/** The error for a file that is not an image, or not a complete one. */
export function invalidImage(message: string, cause?: unknown): HearthError {
  return new HearthError("invalid_media", message, { cause });
}

/** Reads numbers of a file; beyond its end they throw. */
export function viewData(file: Uint8Array): DataView {
  return new DataView(file.buffer, file.byteOffset, file.byteLength);
}
