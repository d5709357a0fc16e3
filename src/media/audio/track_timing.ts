/**
 * Applies the timing that a container gives a track: when it begins relative to other tracks, and which samples are the
 * encoder's padding.
 *
 * @module
 */
import { invalidAudio, MAX_AUDIO_HOURS, type Sound } from "./sound.ts";

/** The timing of a track. */
export interface TrackTiming {
  /** Silence before the sound. */
  readonly delaySeconds?: number;
  /** How much is left out at the beginning of the sound. */
  readonly skipSeconds?: number;
  /** Most of the sound that is kept after the beginning. */
  readonly lengthSeconds?: number;
  /** How much is left out at the end of the sound. */
  readonly paddingSeconds?: number;
}

/**
 * Most padding that is trimmed at the end of a track; no encoder adds more. So much sound is held back until the track
 * has ended.
 */
const MAX_PADDING_SECONDS = 1;
const CHUNK_SAMPLES = 65_536;

/**
 * Adds silence before a sound, and trims its ends.
 *
 * @throws {HearthError} `invalid_media` when the silence alone is longer than {@linkcode MAX_AUDIO_HOURS}.
 */
export async function* applyTiming(
  sounds: AsyncGenerator<Sound, void>,
  { delaySeconds = 0, skipSeconds = 0, lengthSeconds = Infinity, paddingSeconds = 0 }: TrackTiming,
): AsyncGenerator<Sound, void> {
  if (delaySeconds > MAX_AUDIO_HOURS * 3600) {
    throw invalidAudio(
      `The file's sound begins ${Math.floor(delaySeconds / 3600)} hours after its beginning; ` +
        `at most ${MAX_AUDIO_HOURS} are wanted.`,
    );
  }
  let position = 0;
  let isBegun = false;
  for await (const { channels, sampleRateHz } of dropEnd(sounds, paddingSeconds)) {
    if (!isBegun) yield* makeSilence(delaySeconds, sampleRateHz);
    isBegun = true;
    const first = Math.round(skipSeconds * sampleRateHz) - position;
    const end = first + Math.round(lengthSeconds * sampleRateHz);
    position += channels[0]?.length ?? 0;
    yield {
      channels: channels.map((samples) => samples.subarray(Math.max(0, first), Math.max(0, end))),
      sampleRateHz,
    };
  }
}

/** Makes silence in chunks: a damaged file can ask for hours of it. */
function* makeSilence(seconds: number, sampleRateHz: number): Generator<Sound, void> {
  let left = Math.round(seconds * sampleRateHz);
  while (left > 0) {
    const length = Math.min(left, CHUNK_SAMPLES);
    yield { channels: [new Float32Array(length)], sampleRateHz };
    left -= length;
  }
}

async function* dropEnd(
  sounds: AsyncGenerator<Sound, void>,
  paddingSeconds: number,
): AsyncGenerator<Sound, void> {
  const seconds = Math.min(paddingSeconds, MAX_PADDING_SECONDS);
  const held: Sound[] = [];
  let numHeld = 0;
  for await (const sound of sounds) {
    held.push(sound);
    numHeld += getLength(sound);
    const numPadding = Math.round(seconds * sound.sampleRateHz);
    while (held.length > 0 && numHeld - getLength(held[0]!) >= numPadding) {
      numHeld -= getLength(held[0]!);
      yield held.shift()!;
    }
  }
  for (const { channels, sampleRateHz } of held) {
    const left = Math.max(0, numHeld - Math.round(seconds * sampleRateHz));
    numHeld -= channels[0]?.length ?? 0;
    yield { channels: channels.map((samples) => samples.subarray(0, left)), sampleRateHz };
  }
}

function getLength({ channels }: Sound): number {
  return channels[0]?.length ?? 0;
}
