/**
 * Decoded sound, the errors for files that cannot be decoded, and the timing that containers add to a sound.
 *
 * @module
 */
import { HearthError, invalidMedia } from "../../base/errors.ts";

/** A chunk of decoded sound. */
export interface Sound {
  /** f32, one array of equal length per channel, full scale at 1. */
  readonly channels: readonly Float32Array[];
  readonly sampleRateHz: number;
}

/** A reader's reports, in addition to the sound. */
export interface Decoding {
  /** Called if the file ends early, with a clause that says what is missing. The part that is there is decoded. */
  readonly onTruncated: (what: string) => void;
}

/** Decodes a file of one format. The generator frees its decoder when it ends, whether by itself or by `return()`. */
export type SoundReader = (
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
) => AsyncGenerator<Sound, void>;

/** Longest recording. Small files can expand to any length, but real recordings are shorter than this. */
export const MAX_AUDIO_HOURS = 8;

const MIN_RATE_HZ = 1_000;
const MAX_RATE_HZ = 768_000;

/** The error for a format or a codec that is not supported here. */
export class UnreadSoundError extends HearthError {
  constructor(message: string) {
    super(
      "invalid_media",
      `${message} A command that converts it: ffmpeg -i input -ac 1 -ar 16000 output.wav`,
    );
  }
}

/** @throws {HearthError} `invalid_media` when a header gives an impossible sample rate. */
export function checkSampleRate(sampleRateHz: number): void {
  if (sampleRateHz >= MIN_RATE_HZ && sampleRateHz <= MAX_RATE_HZ) return;
  throw invalidMedia(
    `The audio file gives a sample rate of ${sampleRateHz} Hz; ` +
      `${MIN_RATE_HZ} to ${MAX_RATE_HZ} Hz is expected.`,
  );
}

/**
 * Maximum number of errors in a file: damaged frames, or errors that a library's decoder reports. Such a decoder writes
 * each error to standard error.
 */
const MAX_ERRORS = 64;

/** Ends the decoding of a file with too many errors. */
export class ErrorBudget {
  #numErrors = 0;

  /** @throws {HearthError} `invalid_media` when there are too many errors. */
  spend(errors: readonly { readonly message: string }[]): void {
    this.#numErrors += errors.length;
    if (this.#numErrors <= MAX_ERRORS) return;
    throw invalidMedia(
      `The audio file is damaged: its decoder found ${this.#numErrors} errors.`,
      errors[0]?.message,
    );
  }
}

/** The timing of a track. */
export interface TrackTiming {
  /** Silence before the sound. */
  readonly delaySeconds?: number;
  /** Length that is trimmed at the beginning of the sound. */
  readonly skipSeconds?: number;
  /** Longest part of the sound that is kept after `skipSeconds`. */
  readonly lengthSeconds?: number;
  /** Length that is trimmed at the end of the sound. */
  readonly paddingSeconds?: number;
}

/**
 * Maximum padding that is trimmed at the end of a track; no encoder adds more. Sound as long as the padding is held
 * back until the track has ended.
 */
const MAX_PADDING_SECONDS = 1;
/** Longest chunk of silence, and of sound that is mixed without yielding. */
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
    throw invalidMedia(
      `The file's sound begins after ${Math.floor(delaySeconds / 3600)} hours of silence; ` +
        `at most ${MAX_AUDIO_HOURS} hours are allowed.`,
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

/**
 * Scales whole numbers of a bit depth to floating-point samples, in a fifth of the time that `Float32Array.from()`
 * takes.
 */
export function toFloats(values: ArrayLike<number>, depth: number): Float32Array {
  const scale = 2 ** (depth - 1);
  const floats = new Float32Array(values.length);
  for (let i = 0; i < floats.length; i++) floats[i] = values[i]! / scale;
  return floats;
}

/** Channels are compared over at least this many samples, unless the sound is shorter. */
const MIN_MIXED_SAMPLES = 16_384;

/**
 * Joins short sounds and cuts long ones, to chunks of similar lengths. A chunk of a few samples would not show whether
 * its channels cancel each other out. A few bytes of silence can expand to minutes, which must not be processed without
 * yielding.
 */
export async function* regroup(sounds: AsyncIterable<Sound>): AsyncGenerator<Sound, void> {
  let held: Sound[] = [];
  let numHeld = 0;
  for await (const sound of sounds) {
    const length = sound.channels[0]?.length ?? 0;
    if (length === 0) continue;
    const [first = sound] = held;
    const isOther = first.sampleRateHz !== sound.sampleRateHz ||
      first.channels.length !== sound.channels.length;
    if (isOther) {
      yield* cut(joinSounds(held));
      held = [];
      numHeld = 0;
    }
    held.push(sound);
    numHeld += length;
    if (numHeld < 2 * MIN_MIXED_SAMPLES) continue;
    // What is held back is long enough to be the last chunk.
    const joined = joinSounds(held);
    yield* cut(slice(joined, 0, numHeld - MIN_MIXED_SAMPLES));
    held = [slice(joined, numHeld - MIN_MIXED_SAMPLES, numHeld)];
    numHeld = MIN_MIXED_SAMPLES;
  }
  if (numHeld > 0) yield* cut(joinSounds(held));
}

/** Joins sounds of the same sample rate and number of channels. */
function joinSounds(sounds: readonly Sound[]): Sound {
  const { channels, sampleRateHz } = sounds[0]!;
  const length = sounds.reduce((sum, sound) => sum + sound.channels[0]!.length, 0);
  const joined = channels.map((_, channel) => {
    const samples = new Float32Array(length);
    let at = 0;
    for (const sound of sounds) {
      samples.set(sound.channels[channel]!, at);
      at += sound.channels[channel]!.length;
    }
    return samples;
  });
  return { channels: joined, sampleRateHz };
}

function slice({ channels, sampleRateHz }: Sound, start: number, end: number): Sound {
  return { channels: channels.map((samples) => samples.subarray(start, end)), sampleRateHz };
}

/** Cuts a sound into as few chunks of equal length as the limit allows; the last one may be a little shorter. */
function* cut(sound: Sound): Generator<Sound, void> {
  const length = sound.channels[0]!.length;
  const step = Math.ceil(length / Math.ceil(length / CHUNK_SAMPLES));
  for (let at = 0; at < length; at += step) yield slice(sound, at, at + step);
}

/** Largest magnitude of a sample: louder than any recording, and small enough that no spectrum overflows. */
const MAX_AMPLITUDE = 65_536;

/** If the average has a smaller share of the loudest channel's energy than this, the channels cancel each other out. */
const CANCELLED_SHARE = 0.01;

/**
 * Averages the channels. If they cancel each other out, because one was recorded inverted, takes the loudest one. NaN
 * and samples that are too large become 0.
 */
export function mixDown(channels: readonly Float32Array[]): Float32Array<ArrayBuffer> {
  const mono = new Float32Array(channels[0]!.length);
  for (const channel of channels) {
    for (let i = 0; i < mono.length; i++) mono[i]! += channel[i]!;
  }
  const share = 1 / channels.length;
  for (let i = 0; i < mono.length; i++) mono[i] = limit(mono[i]! * share);
  if (channels.length === 1) return mono;
  const energies = channels.map(measureEnergy);
  const highest = Math.max(...energies);
  if (!(measureEnergy(mono) < highest * CANCELLED_SHARE)) return mono;
  return Float32Array.from(channels[energies.indexOf(highest)]!, limit);
}

function limit(sample: number): number {
  return Math.abs(sample) <= MAX_AMPLITUDE ? sample : 0;
}

function measureEnergy(samples: Float32Array): number {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  return sum;
}
