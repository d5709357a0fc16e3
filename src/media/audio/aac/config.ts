/**
 * The configuration of an AAC stream: its `AudioSpecificConfig` (ISO/IEC 14496-3, section 1.6.2).
 *
 * @module
 */
import { invalidAudio } from "../sound.ts";
import { SAMPLE_RATES_HZ } from "./bands.ts";
import { BitReader } from "./bit_reader.ts";

/** What the decoder needs before the first frame. */
export interface AacConfig {
  /** Sample rate of the decoded core; spectral band replication would double it. */
  readonly sampleRateHz: number;
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
    if (objectType === OBJECT_TYPE.bandReplication || objectType === OBJECT_TYPE.parametricStereo) {
      readSampleRate(bits);
      objectType = readObjectType(bits);
    }
    const hasShortFrames = bits.read(1) === 1;
    if (objectType === OBJECT_TYPE.lowComplexity && !hasShortFrames) return { sampleRateHz };
    throw invalidAudio(
      `The AAC stream is of object type ${objectType}` +
        `${hasShortFrames ? " with frames of 960 samples" : ""}; AAC-LC or HE-AAC is wanted.`,
    );
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw invalidAudio("The AAC stream's configuration is cut short or damaged.", error);
  }
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
