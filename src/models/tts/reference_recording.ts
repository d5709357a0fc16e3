/**
 * A recording of somebody whose voice is to be spoken with.
 *
 * @module
 */
import { decodeAudio } from "../../media/audio.ts";
import { invalidAudio } from "../../media/audio/sound.ts";

/** Less tells too little of a voice. */
const MIN_SECONDS = 1;
/** More tells no more, and memory grows with its square. */
const MAX_SECONDS = 30;
/** Of full scale: what stays below this is silence. */
const SILENT_PEAK = 1e-3;

/** How a recording is read. */
export interface ReferenceOptions {
  readonly sampleRateHz: number;
  /** Whether the beginning of one that is too long will do. */
  readonly isCut?: boolean;
}

/**
 * Decodes a recording of any format that is read, as one channel.
 *
 * @returns f32, the caller's.
 * @throws {HearthError} `invalid_media` when it is no audio, too short, too long or silent.
 */
export async function readReference(
  file: Uint8Array<ArrayBuffer>,
  { sampleRateHz, isCut = false }: ReferenceOptions,
): Promise<Float32Array<ArrayBuffer>> {
  const samples = new Float32Array(MAX_SECONDS * sampleRateHz);
  let length = 0;
  for await (const piece of decodeAudio(file, { sampleRateHz })) {
    const room = samples.length - length;
    samples.set(piece.subarray(0, room), length);
    length += Math.min(piece.length, room);
    if (piece.length <= room) continue;
    if (isCut) break;
    throw wrongLength(`more than ${MAX_SECONDS} s`);
  }
  if (length < MIN_SECONDS * sampleRateHz) {
    throw wrongLength(`${(length / sampleRateHz).toFixed(2)} s`);
  }
  const recorded = samples.slice(0, length);
  requireSound(recorded);
  return recorded;
}

function wrongLength(seen: string): Error {
  return invalidAudio(
    `The recording lasts ${seen}; wanted are ${MIN_SECONDS} to ${MAX_SECONDS} s of one person speaking.`,
  );
}

function requireSound(samples: Float32Array): void {
  if (samples.some((sample) => Math.abs(sample) >= SILENT_PEAK)) return;
  throw invalidAudio("The recording is silent; one person speaking is wanted.");
}
