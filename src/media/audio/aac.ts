/**
 * Decodes AAC frames, from any container and from files in which each frame has its own header (ADTS: ISO/IEC 13818-7,
 * section 6.2).
 *
 * Hearth has its own decoder, because FAAD2 is under the GPL, FDK-AAC is under a licence of its own, and Deno has no
 * WebCodecs.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { AacDecoder } from "./aac/decoder.ts";
import { type Decoding, type Sound, UnreadSoundError } from "./sound.ts";
import { SAMPLE_RATES_HZ } from "./aac/tables.ts";
import { BitReader } from "../file_bytes.ts";
import { findFirstFrame, findFrames, SYNC_BYTE, type SyncFrame } from "./mp3.ts";

const FRAME_SAMPLES = 1024;
/**
 * Delay of the filters of spectral band replication, in samples at the core's rate. It is 962 samples at the output
 * rate, which is twice as high.
 */
const REPLICATION_DELAY_SAMPLES = 481;
/** A stream with a larger share of damaged frames is refused. */
const MAX_DAMAGED_SHARE = 0.5;
/** From this many frames on, the share is checked without waiting for the end of the stream. */
const MIN_FRAMES = 64;

/**
 * Decodes frames. A damaged frame becomes silence.
 *
 * Spectral band replication, HE-AAC's upper half of the spectrum, is not decoded. The sound still begins with silence,
 * for the delay of the replication filters, because the timing in containers includes that delay.
 *
 * @throws {HearthError} `invalid_media` when most frames are damaged.
 */
export async function* decodeAac(
  { sampleRateHz, hasBandReplication = false }: AacConfig,
  frames: Iterable<Uint8Array>,
): AsyncGenerator<Sound, void> {
  const decoder = new AacDecoder(sampleRateHz);
  let numFrames = 0;
  let numDamaged = 0;
  for (const frame of frames) {
    numFrames++;
    let channels: Float32Array[];
    try {
      channels = decoder.decode(frame);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      numDamaged++;
      if (numFrames >= MIN_FRAMES) requireDecodable(numDamaged, numFrames, error);
      channels = [new Float32Array(FRAME_SAMPLES)];
    }
    if (numFrames === 1 && (hasBandReplication || decoder.hasBandReplication)) {
      const silence = channels.map(() => new Float32Array(REPLICATION_DELAY_SAMPLES));
      yield { channels: silence, sampleRateHz };
    }
    yield { channels, sampleRateHz };
  }
  requireDecodable(numDamaged, numFrames);
}

function requireDecodable(numDamaged: number, numFrames: number, cause?: RangeError): void {
  if (numDamaged <= numFrames * MAX_DAMAGED_SHARE) return;
  throw invalidMedia(`Of ${numFrames} AAC frames, ${numDamaged} cannot be decoded.`, cause);
}

/** The parameters that the decoder needs before the first frame. */
interface AacConfig {
  /** Sample rate of the decoded core; spectral band replication would double it. */
  readonly sampleRateHz: number;
  /** Whether the stream declares itself HE-AAC. Some HE-AAC streams do not. */
  readonly hasBandReplication?: boolean;
}

const OBJECT_TYPE = {
  lowComplexity: 2,
  bandReplication: 5,
  parametricStereo: 29,
  escape: 31,
} as const;
const EXPLICIT_RATE = 15;

/** @throws {HearthError} `invalid_media` unless the stream has the LC profile, alone or as the core of HE-AAC. */
export function parseAacConfig(data: Uint8Array): AacConfig {
  const bits = new BitReader(data);
  try {
    let objectType = readObjectType(bits);
    const sampleRateHz = readSampleRate(bits);
    bits.skip(4);
    const hasBandReplication = objectType === OBJECT_TYPE.bandReplication ||
      objectType === OBJECT_TYPE.parametricStereo;
    if (hasBandReplication) {
      readSampleRate(bits);
      objectType = readObjectType(bits);
    }
    const hasShortFrames = bits.read(1) === 1;
    if (objectType === OBJECT_TYPE.lowComplexity && !hasShortFrames) {
      return { sampleRateHz, hasBandReplication };
    }
    throw new UnreadSoundError(
      `The AAC stream is ${nameObjectType(objectType)}` +
        `${hasShortFrames ? " with frames of 960 samples" : ""}; AAC-LC or HE-AAC is expected.`,
    );
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw invalidMedia("The AAC stream's configuration is cut short or damaged.", error);
  }
}

/** Names of object types, for error messages. */
const OBJECT_NAMES: Readonly<Record<number, string>> = {
  1: "AAC Main",
  2: "AAC-LC",
  3: "AAC-SSR",
  4: "AAC-LTP",
  23: "AAC-LD",
  39: "AAC-ELD",
  42: "xHE-AAC (USAC)",
};

/** The common name of an object type, or its number. */
function nameObjectType(type: number): string {
  return OBJECT_NAMES[type] ?? `of object type ${type}`;
}

function readObjectType(bits: BitReader): number {
  const type = bits.read(5);
  return type === OBJECT_TYPE.escape ? 32 + bits.read(6) : type;
}

function readSampleRate(bits: BitReader): number {
  const index = bits.read(4);
  if (index === EXPLICIT_RATE) return bits.read(24);
  const rate = SAMPLE_RATES_HZ[index];
  if (rate === undefined) {
    throw new RangeError(`The AAC stream gives the sample rate by the reserved index ${index}.`);
  }
  return rate;
}

interface AdtsFrame extends SyncFrame {
  /** The frame without its header. */
  readonly data: Uint8Array;
  readonly objectType: number;
  readonly sampleRateHz: number;
}

const HEADER_BYTES = 7;
const CHECKSUM_BYTES = 2;
const MAX_JUNK_BYTES = 1 << 20;
/** The frame's length is a field of 13 bits. */
const MAX_FRAME_BYTES = 1 << 13;

/** The offset of the first frame, if the file is AAC with frame headers. */
export function findAdts(file: Uint8Array): number | undefined {
  return findFirstFrame(file, parseFrame);
}

/**
 * Decodes an AAC file. Bytes between frames are skipped.
 *
 * @throws {HearthError} `invalid_media` when the stream is neither AAC-LC nor HE-AAC with an LC core, or when most of
 * it is damaged.
 */
export async function* readAdts(
  file: Uint8Array<ArrayBuffer>,
  { onTruncated }: Decoding,
): AsyncGenerator<Sound, void> {
  const start = findAdts(file);
  if (start === undefined) throw invalidMedia("The AAC file holds no frames.");
  const { objectType, sampleRateHz } = parseFrame(file, start)!;
  if (objectType !== OBJECT_TYPE.lowComplexity) {
    throw new UnreadSoundError(
      `The AAC file is ${nameObjectType(objectType)}; AAC-LC or HE-AAC is expected.`,
    );
  }
  yield* decodeAac({ sampleRateHz }, listFrames(file, { start, sampleRateHz, onTruncated }));
}

function* listFrames(
  file: Uint8Array,
  { start, sampleRateHz, onTruncated }: Decoding & {
    readonly start: number;
    readonly sampleRateHz: number;
  },
): Generator<Uint8Array> {
  let at: number | undefined = start;
  while (at !== undefined) {
    const frame: AdtsFrame | undefined = parseFrame(file, at);
    if (frame?.sampleRateHz === sampleRateHz) {
      yield frame.data;
      at += frame.numBytes;
    } else {
      const isHeader = at < file.length && file[at] === SYNC_BYTE &&
        (file[at + 1]! & 0xf6) === 0xf0;
      if (isHeader && file.length - at < MAX_FRAME_BYTES) onTruncated("its last frame is cut");
      at = findFrames(file, at + 1, { maxBytes: MAX_JUNK_BYTES, parse: parseFrame });
    }
  }
}

function parseFrame(file: Uint8Array, at: number): AdtsFrame | undefined {
  const [sync, flags, kind, length0, length1, length2] = file.subarray(at, at + HEADER_BYTES);
  if (sync !== SYNC_BYTE || length2 === undefined || (flags! & 0xf6) !== 0xf0) return undefined;
  const sampleRateHz = SAMPLE_RATES_HZ[kind! >> 2 & 15];
  const numBytes = (length0! & 3) << 11 | length1! << 3 | length2 >> 5;
  const headerBytes = HEADER_BYTES + ((flags! & 1) === 0 ? CHECKSUM_BYTES : 0);
  if (sampleRateHz === undefined || numBytes <= headerBytes || at + numBytes > file.length) {
    return undefined;
  }
  return {
    data: file.subarray(at + headerBytes, at + numBytes),
    numBytes,
    kind: kind! >> 2,
    objectType: 1 + (kind! >> 6),
    sampleRateHz,
  };
}
