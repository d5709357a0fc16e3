/**
 * What a format of image files has to offer, and what is said when a file is damaged.
 *
 * @module
 */
import { HearthError } from "../../errors.ts";
import type { Pixels } from "../pixels.ts";
import type { Orientation } from "./orientation.ts";

/** What a file says of itself before anything is decoded. */
export interface ImageSize {
  /** Pixels as stored: with orientations 5 to 8 the image is shown turned by a quarter. */
  readonly width: number;
  /** Pixels as stored. */
  readonly height: number;
  readonly orientation: Orientation;
}

/** A format of image files. What its functions throw at a file is that file's fault. */
export interface ImageFormat {
  readonly name: string;
  /** Whether a file is of this format, by its first bytes. */
  readonly matches: (file: Uint8Array) => boolean;
  /** Reads the header; nothing is allocated. */
  readonly readSize: (file: Uint8Array<ArrayBuffer>) => ImageSize;
  /**
   * Decodes the first image as it is stored, not turned yet.
   *
   * @param size what `readSize` gave; the result has this size or none.
   */
  readonly decode: (file: Uint8Array<ArrayBuffer>, size: ImageSize) => Pixels | Promise<Pixels>;
}

/** The error for a file that is no image, or not a whole one. */
export function invalidImage(message: string, cause?: unknown): HearthError {
  return new HearthError("invalid_media", message, { cause });
}

/** Whether a file has these characters, of one byte each, at an offset. */
export function hasText(file: Uint8Array, offset: number, text: string): boolean {
  if (offset + text.length > file.length) return false;
  for (let i = 0; i < text.length; i++) {
    if (file[offset + i] !== text.charCodeAt(i)) return false;
  }
  return true;
}

/** Reads numbers of a file; beyond its end they throw. */
export function viewOf(file: Uint8Array): DataView {
  return new DataView(file.buffer, file.byteOffset, file.byteLength);
}
