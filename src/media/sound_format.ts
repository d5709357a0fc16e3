/**
 * The formats in which sound can be written.
 *
 * @module
 */

/** Names of the formats in OpenAI's API. */
export const SOUND_FORMATS = ["mp3", "opus", "flac", "wav", "pcm"] as const;

export type SoundFormat = typeof SOUND_FORMATS[number];

/** Media types of the formats. */
export const CONTENT_TYPES: Readonly<Record<SoundFormat, string>> = {
  mp3: "audio/mpeg",
  opus: "audio/ogg; codecs=opus",
  flac: "audio/flac",
  wav: "audio/wav",
  pcm: "audio/pcm; rate=24000; channels=1",
};

/** An incremental writer of a file: the concatenated results of its functions are the file. */
export interface SoundWriter {
  /**
   * @param samples f32 of one channel, -1 to 1; values beyond are clipped.
   * @returns the bytes that are ready, owned by the caller; perhaps none.
   */
  write(samples: Float32Array): Uint8Array<ArrayBuffer>;
  /**
   * Ends the file.
   *
   * @returns its last bytes, owned by the caller; perhaps none.
   */
  finish(): Uint8Array<ArrayBuffer>;
  /** Frees the encoder, even if the file is not finished. */
  dispose(): void;
}

/** Clips samples to full scale. */
export function clip(samples: Float32Array): Float32Array<ArrayBuffer> {
  return samples.map((sample) => Math.max(-1, Math.min(1, sample)));
}

/** Converts samples to 16-bit integers. */
export function toInt16(samples: Float32Array): Int16Array<ArrayBuffer> {
  const integers = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i++) {
    const value = samples[i]! * 32_767;
    const inRange = value > 32_767 ? 32_767 : value < -32_767 ? -32_767 : value;
    // As Math.round(), in a quarter of its time.
    integers[i] = Math.floor(inRange + 0.5);
  }
  return integers;
}

/** Peak level after limiting; lossy formats may add a little to it. */
const CEILING = 0.95;

/**
 * Scales a sound down in place if a sample exceeds full scale.
 *
 * @throws {RangeError} when a sample is not finite.
 */
export function limitPeaks(samples: Float32Array): void {
  let peak = 0;
  for (let i = 0; i < samples.length; i++) {
    const loudness = Math.abs(samples[i]!);
    if (!Number.isFinite(loudness)) {
      throw new RangeError("The sound has samples that are NaN or infinite.");
    }
    if (loudness > peak) peak = loudness;
  }
  if (peak <= 1) return;
  const factor = CEILING / peak;
  for (let i = 0; i < samples.length; i++) samples[i]! *= factor;
}
