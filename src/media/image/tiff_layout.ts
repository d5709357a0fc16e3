/**
 * The layout of a TIFF file's pixels.
 *
 * @module
 */
import type { TiffTags } from "./tiff_tags.ts";

/** The layout and meaning of a TIFF file's samples. */
export interface TiffLayout {
  readonly width: number;
  readonly height: number;
  /** 1, 2, 4, 8 or 16. */
  readonly bits: number;
  readonly numSamples: number;
  readonly photometric: number;
  /** Whether the samples of a pixel lie in planes of their own. */
  readonly isPlanar: boolean;
  readonly isLittleEndian: boolean;
  readonly tags: TiffTags;
}
