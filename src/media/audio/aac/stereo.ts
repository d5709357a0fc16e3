/**
 * Joint stereo coding of a channel pair (ISO/IEC 14496-3, section 4.6.8).
 *
 * @module
 */
import type { BitReader } from "./bit_reader.ts";
import type { ChannelFrame } from "./channel.ts";
import { CODEBOOK } from "./scale_factors.ts";
import type { WindowLayout } from "./window.ts";

const MASK = { none: 0, some: 1, all: 2 } as const;

/** @returns u8 `[groups, bands]`: 1 where the channels are coded as mid and side. */
export function readMidSideMask(
  bits: BitReader,
  { groups, numBands }: WindowLayout,
): Uint8Array {
  const kind = bits.read(2);
  const mask = new Uint8Array(groups.length * numBands);
  if (kind === MASK.some) mask.forEach((_, i) => mask[i] = bits.read(1));
  else if (kind !== MASK.none) mask.fill(1);
  return mask;
}

/** Converts a pair to left and right, in place. */
export function decouple(left: ChannelFrame, right: ChannelFrame, mask: Uint8Array): void {
  const { groups, bands, numBands, windowSize } = left.layout;
  let firstWindow = 0;
  for (const [group, numWindows] of groups.entries()) {
    for (let band = 0; band < numBands; band++) {
      const index = group * numBands + band;
      for (let window = firstWindow; window < firstWindow + numWindows; window++) {
        const start = window * windowSize + bands.offsets[band]!;
        const end = window * windowSize + bands.offsets[band + 1]!;
        decoupleBand(left, right, { index, start, end, isMasked: mask[index] === 1 });
      }
    }
    firstWindow += numWindows;
  }
}

function decoupleBand(
  left: ChannelFrame,
  right: ChannelFrame,
  { index, start, end, isMasked }: { index: number; start: number; end: number; isMasked: boolean },
): void {
  const codebook = right.codebooks[index]!;
  if (codebook >= CODEBOOK.oppositeIntensity) {
    const isOpposite = (codebook === CODEBOOK.oppositeIntensity) !== isMasked;
    const factor = right.scales[index]! * (isOpposite ? -1 : 1);
    for (let i = start; i < end; i++) right.spectrum[i] = left.spectrum[i]! * factor;
    return;
  }
  const hasNoise = codebook === CODEBOOK.noise || left.codebooks[index] === CODEBOOK.noise;
  if (!isMasked || hasNoise) return;
  for (let i = start; i < end; i++) {
    const middle = left.spectrum[i]!;
    const side = right.spectrum[i]!;
    left.spectrum[i] = middle + side;
    right.spectrum[i] = middle - side;
  }
}
