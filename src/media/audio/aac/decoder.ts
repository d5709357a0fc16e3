/**
 * Decodes AAC-LC frames (ISO/IEC 14496-3, `raw_data_block`).
 *
 * HE-AAC is AAC-LC plus a description of the upper half of the spectrum, which is ignored here. What remains has half
 * the sample rate, which is enough for speech recognition at 16 kHz.
 *
 * @module
 */
import {
  type BandTable,
  getBands,
  readWindowLayout,
  SEQUENCE,
  type WindowLayout,
} from "./tables.ts";
import { BitReader } from "../../file_bytes.ts";
import { applyTns, Filterbank, readTns, type TnsFilter } from "./filterbank.ts";
import {
  CODEBOOK,
  NoiseSource,
  type Pulse,
  readScales,
  readSections,
  readSpectrum,
} from "./spectrum.ts";

const ELEMENT = {
  single: 0,
  pair: 1,
  coupling: 2,
  lowFrequency: 3,
  data: 4,
  program: 5,
  fill: 6,
  end: 7,
} as const;
const MAX_CHANNELS = 8;

/** Decodes one stream frame by frame. */
export class AacDecoder {
  readonly #context: StreamContext;
  readonly #filterbanks: Filterbank[] = [];
  #hasBandReplication = false;

  constructor(sampleRateHz: number) {
    this.#context = { table: getBands(sampleRateHz), noise: new NoiseSource() };
  }

  /** Whether any frame so far was HE-AAC. */
  get hasBandReplication(): boolean {
    return this.#hasBandReplication;
  }

  /**
   * @returns f32 `[channels][1024]`, full scale at 1.
   * @throws {RangeError} when the frame is invalid or uses features outside the LC profile.
   */
  decode(frame: Uint8Array): Float32Array<ArrayBuffer>[] {
    return this.#readChannels(new BitReader(frame)).map(({ spectrum, tns, layout }, channel) => {
      applyTns(spectrum, tns, layout);
      const filterbank = this.#filterbanks[channel] ??= new Filterbank();
      return filterbank.transform(spectrum, layout);
    });
  }

  #readChannels(bits: BitReader): ChannelFrame[] {
    const channels: ChannelFrame[] = [];
    while (true) {
      const element = bits.read(3);
      if (element === ELEMENT.end) return channels;
      if (channels.length > MAX_CHANNELS) {
        throw new RangeError("The AAC data have too many channels.");
      }
      switch (element) {
        case ELEMENT.single:
        case ELEMENT.lowFrequency:
          bits.skip(4);
          channels.push(readChannel(bits, this.#context));
          break;
        case ELEMENT.pair:
          bits.skip(4);
          channels.push(...this.#readPair(bits));
          break;
        case ELEMENT.data:
          skipData(bits);
          break;
        case ELEMENT.program:
          skipProgram(bits);
          break;
        case ELEMENT.fill:
          if (skipFill(bits)) this.#hasBandReplication = true;
          break;
        default:
          throw new RangeError("The AAC data use coupled channels.");
      }
    }
  }

  #readPair(bits: BitReader): [ChannelFrame, ChannelFrame] {
    const isShared = bits.read(1) === 1;
    if (!isShared) return [readChannel(bits, this.#context), readChannel(bits, this.#context)];
    const layout = readWindowLayout(bits, this.#context.table);
    const mask = readMidSideMask(bits, layout);
    const left = readChannel(bits, this.#context, layout);
    const right = readChannel(bits, this.#context, layout);
    decouple(left, right, mask);
    return [left, right];
  }
}

function skipData(bits: BitReader): void {
  bits.skip(4);
  const isAligned = bits.read(1) === 1;
  const count = bits.read(8);
  const numBytes = count === 255 ? count + bits.read(8) : count;
  if (isAligned) bits.align();
  bits.skip(8 * numBytes);
}

/** Extension types that describe the upper half of the spectrum: without and with a checksum. */
const REPLICATION_TYPES = [13, 14];

/** @returns whether the skipped data describe the upper half of the spectrum. */
function skipFill(bits: BitReader): boolean {
  const count = bits.read(4);
  const numBytes = count === 15 ? count + bits.read(8) - 1 : count;
  if (numBytes === 0) return false;
  const type = bits.read(4);
  bits.skip(8 * numBytes - 4);
  return REPLICATION_TYPES.includes(type);
}

/** Skips a `program_config_element`, which assigns channels to speakers. */
function skipProgram(bits: BitReader): void {
  bits.skip(4 + 2 + 4);
  const numSpeakers = bits.read(4) + bits.read(4) + bits.read(4);
  const numLow = bits.read(2);
  const numData = bits.read(3);
  const numCoupling = bits.read(4);
  if (bits.read(1) === 1) bits.skip(4);
  if (bits.read(1) === 1) bits.skip(4);
  if (bits.read(1) === 1) bits.skip(3);
  bits.skip(5 * numSpeakers + 4 * numLow + 4 * numData + 5 * numCoupling);
  bits.align();
  bits.skip(8 * bits.read(8));
}

const MASK = { none: 0, some: 1, all: 2 } as const;

/** @returns u8 `[groups, bands]`: 1 where a band is coded as mid and side. */
function readMidSideMask(
  bits: BitReader,
  { groups, numBands }: WindowLayout,
): Uint8Array {
  const kind = bits.read(2);
  const mask = new Uint8Array(groups.length * numBands);
  if (kind === MASK.some) mask.forEach((_, i) => mask[i] = bits.read(1));
  else if (kind !== MASK.none) mask.fill(1);
  return mask;
}

/** Converts the channels of a pair to left and right, in place. */
function decouple(left: ChannelFrame, right: ChannelFrame, mask: Uint8Array): void {
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

// Reads one channel's part of an AAC frame, from bits to coefficients (ISO/IEC 14496-3, `individual_channel_stream`).

/** One channel of a frame, before the steps that combine both channels of a pair. */
interface ChannelFrame {
  readonly layout: WindowLayout;
  /** u8 `[groups, bands]`: how each band is coded. */
  readonly codebooks: Uint8Array;
  /** f64 `[groups, bands]`: the factor on each band. */
  readonly scales: Float64Array;
  /** f64 `[1024]`, one window after the other. */
  readonly spectrum: Float64Array;
  readonly tns: readonly TnsFilter[];
}

/** The context shared by all channels of a stream. */
interface StreamContext {
  readonly table: BandTable;
  readonly noise: NoiseSource;
}

/**
 * Reads one channel.
 *
 * @param shared the window layout, if both channels of a pair have the same one.
 * @throws {RangeError} when the bits are invalid or use features outside the LC profile.
 */
function readChannel(
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
    throw new RangeError("The AAC data have pulses where none are allowed.");
  }
  const pulses: Pulse[] = [];
  for (let i = 0; i < count; i++) {
    at += bits.read(5);
    pulses.push({ at, amplitude: bits.read(4) });
  }
  return pulses;
}
