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
