/**
 * Decodes AAC frames, from any container.
 *
 * The decoder is ours: FAAD2 is under the GPL, FDK-AAC under a licence of its own, and Deno has no WebCodecs.
 *
 * @module
 */
import type { AacConfig } from "./aac/config.ts";
import { AacDecoder } from "./aac/decoder.ts";
import { invalidAudio, type Sound } from "./sound.ts";

const FRAME_SAMPLES = 1024;
/** What the filters of spectral band replication add at the beginning, in samples of the core: 962 at twice its rate. */
const REPLICATION_DELAY_SAMPLES = 481;
/** Streams with a larger share of damaged frames are refused, after this many frames. */
const MAX_DAMAGED_SHARE = 0.5;
const MIN_FRAMES = 64;

/**
 * Decodes frames. A damaged one becomes silence. HE-AAC begins as late as with its upper half of the spectrum, which
 * containers that say where the sound begins count on.
 *
 * @throws {HearthError} `invalid_media` when most are damaged.
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
