/**
 * The configuration of an AAC stream: its `AudioSpecificConfig` (ISO/IEC 14496-3, section 1.6.2).
 *
 * @module
 */
import { invalidAudio, UnreadSoundError } from "../sound.ts";
import { SAMPLE_RATES_HZ } from "./bands.ts";
import { BitReader } from "../bit_reader.ts";

/** What the decoder needs before the first frame. */
export interface AacConfig {
  /** Sample rate of the decoded core; spectral band replication would double it. */
  readonly sampleRateHz: number;
  /** Whether the stream is announced as HE-AAC; it may be all the same if not. */
  readonly hasBandReplication?: boolean;
}

const OBJECT_TYPE = {
  lowComplexity: 2,
  bandReplication: 5,
  parametricStereo: 29,
  escape: 31,
} as const;
const EXPLICIT_RATE = 15;

/** @throws {HearthError} `invalid_media` when the stream is not of the LC profile, or HE-AAC upon it. */
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
        `${hasShortFrames ? " with frames of 960 samples" : ""}; AAC-LC or HE-AAC is wanted.`,
    );
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw invalidAudio("The AAC stream's configuration is cut short or damaged.", error);
  }
}

/** Object types that encoders write and that are not decoded. */
const OBJECT_NAMES: Readonly<Record<number, string>> = {
  1: "AAC Main",
  2: "AAC-LC",
  3: "AAC-SSR",
  4: "AAC-LTP",
  23: "AAC-LD",
  39: "AAC-ELD",
  42: "xHE-AAC (USAC)",
};

/** A kind of AAC as people call it. */
export function nameObjectType(type: number): string {
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
  if (rate === undefined) throw new RangeError(`The AAC stream gives sample rate index ${index}.`);
  return rate;
}
