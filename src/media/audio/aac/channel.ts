/**
 * One channel's part of an AAC frame: from bits to coefficients (ISO/IEC 14496-3, `individual_channel_stream`).
 *
 * @module
 */
import type { BandTable } from "./bands.ts";
import type { BitReader } from "../bit_reader.ts";
import { readScales, readSections } from "./scale_factors.ts";
import { type NoiseSource, type Pulse, readSpectrum } from "./spectrum.ts";
import { readTns, type TnsFilter } from "./tns.ts";
import { readWindowLayout, SEQUENCE, type WindowLayout } from "./window.ts";

/** A channel's frame, before the tools that look at both channels of a pair. */
export interface ChannelFrame {
  readonly layout: WindowLayout;
  /** u8 `[groups, bands]`: how each band is coded. */
  readonly codebooks: Uint8Array;
  /** f64 `[groups, bands]`: what the band is scaled by. */
  readonly scales: Float64Array;
  /** f64 `[1024]`, window after window. */
  readonly spectrum: Float64Array;
  readonly tns: readonly TnsFilter[];
}

/** The context shared by all channels of a stream. */
export interface StreamContext {
  readonly table: BandTable;
  readonly noise: NoiseSource;
}

/**
 * Reads one channel.
 *
 * @param shared the windows, where the channels of a pair have them in common.
 * @throws {RangeError} when the bits are invalid or use features outside the LC profile.
 */
export function readChannel(
  bits: BitReader,
  { table, noise }: StreamContext,
  shared?: WindowLayout,
): ChannelFrame {
  const globalGain = bits.read(8);
  const layout = shared ?? readWindowLayout(bits, table);
  const codebooks = readSections(bits, layout);
  const scales = readScales(bits, codebooks, globalGain);
  const pulses = bits.read(1) === 1 ? readPulses(bits, layout) : [];
  const tns = bits.read(1) === 1 ? readTns(bits, layout) : [];
  if (bits.read(1) === 1) throw new RangeError("The AAC data use gain control.");
  const spectrum = readSpectrum(bits, { layout, codebooks, scales, pulses, noise });
  return { layout, codebooks, scales, spectrum, tns };
}

function readPulses(bits: BitReader, { sequence, bands }: WindowLayout): Pulse[] {
  const count = bits.read(2) + 1;
  const firstBand = bits.read(6);
  let at = bands.offsets[firstBand];
  if (sequence === SEQUENCE.short || at === undefined) {
    throw new RangeError("The AAC data have pulses where none can be.");
  }
  const pulses: Pulse[] = [];
  for (let i = 0; i < count; i++) {
    at += bits.read(5);
    pulses.push({ at, amplitude: bits.read(4) });
  }
  return pulses;
}
