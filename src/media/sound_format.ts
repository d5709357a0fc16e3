/**
 * The formats in which sound is written.
 *
 * @module
 */

/** Their names, as OpenAI's API has them. */
export const SOUND_FORMATS = ["mp3", "opus", "flac", "wav", "pcm"] as const;

/** One of them. */
export type SoundFormat = typeof SOUND_FORMATS[number];

/** Their media types. */
export const CONTENT_TYPES: Readonly<Record<SoundFormat, string>> = {
  mp3: "audio/mpeg",
  opus: "audio/ogg; codecs=opus",
  flac: "audio/flac",
  wav: "audio/wav",
  pcm: "audio/pcm; rate=24000; channels=1",
};

/** An incremental writer: its pieces, concatenated, are the file. */
export interface SoundWriter {
  /**
   * @param samples f32 of one channel, -1 to 1; values beyond are clipped.
   * @returns the bytes that these complete, the caller's; perhaps none.
   */
  write(samples: Float32Array): Uint8Array<ArrayBuffer>;
  /** Ends the file. @returns its last bytes, the caller's; perhaps none. */
  finish(): Uint8Array<ArrayBuffer>;
  /** Frees the encoder, also of a file that was not ended. */
  dispose(): void;
}

/** Samples clipped to full scale. */
export function clip(samples: Float32Array): Float32Array<ArrayBuffer> {
  return samples.map((sample) => Math.max(-1, Math.min(1, sample)));
}

/** Samples as integers of 16 bits. */
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
