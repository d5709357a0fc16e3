/**
 * How the pixels of a TIFF file lie.
 *
 * @module
 */
import type { TiffTags } from "./tiff_tags.ts";

/** How the samples of a TIFF file lie and what they mean. */
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
