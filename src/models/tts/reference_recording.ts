/**
 * Reads a recording for voice cloning.
 *
 * @module
 */
import { decodeAudio } from "../../media/audio.ts";
import { invalidAudio } from "../../media/audio/sound.ts";

/** A shorter recording is not enough for a voice. */
const MIN_SECONDS = 1;
/** A longer one does not help, and memory grows with its square. */
const MAX_SECONDS = 30;
/** Of full scale: what stays below this is silence. */
const SILENT_PEAK = 1e-3;

/** How to read a recording. */
export interface ReferenceOptions {
  readonly sampleRateHz: number;
  /** Whether to use the beginning of one that is too long. */
  readonly isCut?: boolean;
}

/**
 * Decodes a recording of any supported format, as one channel.
 *
 * @returns f32, the caller's.
 * @throws {HearthError} `invalid_media` when it is not audio, too short, too long or silent.
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
