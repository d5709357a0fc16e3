/**
 * Decodes AAC frames, from any container.
 *
 * The decoder is ours: FAAD2 is under the GPL, FDK-AAC under a licence of its own, and Deno has no WebCodecs.
 *
 * @module
 */
import { AacDecoder } from "./aac/decoder.ts";
import { invalidAudio, type Sound, UnreadSoundError } from "./sound.ts";
import { SAMPLE_RATES_HZ } from "./aac/bands.ts";
import { BitReader } from "./bit_reader.ts";

const FRAME_SAMPLES = 1024;
/** Delay added by the filters of spectral band replication, in samples of the core: 962 samples at twice its rate. */
const REPLICATION_DELAY_SAMPLES = 481;
/** A stream with a larger share of damaged frames is refused, once it has this many frames. */
const MAX_DAMAGED_SHARE = 0.5;
const MIN_FRAMES = 64;

/**
 * Decodes frames. A damaged frame becomes silence. HE-AAC gets the delay that decoding its upper half of the spectrum
 * would add, as containers count on it when they say where the sound begins.
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
  throw invalidAudio(`Of ${numFrames} AAC frames, ${numDamaged} cannot be decoded.`, cause);
}

/** What the decoder needs before the first frame. */
interface AacConfig {
  /** Sample rate of the decoded core; spectral band replication would double it. */
  readonly sampleRateHz: number;
  /** Whether the stream declares itself HE-AAC. It may be HE-AAC even if not. */
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
        `${hasShortFrames ? " with frames of 960 samples" : ""}; AAC-LC or HE-AAC is wanted.`,
    );
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw invalidAudio("The AAC stream's configuration is cut short or damaged.", error);
  }
}

/** Object types that encoders write but that are not decoded here. */
const OBJECT_NAMES: Readonly<Record<number, string>> = {
  1: "AAC Main",
  2: "AAC-LC",
  3: "AAC-SSR",
  4: "AAC-LTP",
  23: "AAC-LD",
  39: "AAC-ELD",
  42: "xHE-AAC (USAC)",
};

/** The common name of a kind of AAC. */
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
