/**
 * Decodes an audio file of any common format to one channel at one sample rate.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import { yieldToEvents } from "../base/yield_to_events.ts";
import { findAdts, readAdts } from "./audio/aac.ts";
import { isAiff, isAu, readAiff, readAu } from "./audio/aiff.ts";
import { isCaf, readCaf } from "./audio/caf.ts";
import { findFlac, readFlac } from "./audio/flac.ts";
import { findMp3, isFreeMp3, readMp3 } from "./audio/mp3.ts";
import { isMp4, readMp4 } from "./audio/mp4.ts";
import { readOgg } from "./audio/ogg.ts";
import { isOgg } from "./audio/ogg_pages.ts";
import {
  checkSampleRate,
  type Decoding,
  invalidAudio,
  MAX_AUDIO_HOURS,
  type Sound,
  type SoundReader,
  UnreadSoundError,
} from "./audio/sound.ts";
import { isWav, readWav } from "./audio/wav.ts";
import { isWebm, readWebm } from "./audio/webm.ts";
import { convertWithFfmpeg } from "./ffmpeg.ts";
import { AudioResampler } from "./sound_rate.ts";
import { describeUnread, type Signature } from "./signature.ts";

interface AudioFormat {
  readonly name: string;
  readonly matches: (file: Uint8Array) => boolean;
  readonly read: SoundReader;
}

/** Formats in the order in which they are tried: those with the most distinctive signatures first. */
const FORMATS: readonly AudioFormat[] = [
  { name: "WAV", matches: isWav, read: readWav },
  { name: "Ogg", matches: isOgg, read: readOgg },
  { name: "WebM", matches: isWebm, read: readWebm },
  { name: "MP4", matches: isMp4, read: readMp4 },
  { name: "AIFF", matches: isAiff, read: readAiff },
  { name: "CAF", matches: isCaf, read: readCaf },
  { name: "AU", matches: isAu, read: readAu },
  { name: "FLAC", matches: (file) => findFlac(file) !== undefined, read: readFlac },
  { name: "AAC", matches: (file) => findAdts(file) !== undefined, read: readAdts },
  { name: "MP3", matches: (file) => findMp3(file) !== undefined, read: readMp3 },
];

/** Formats that cannot be read but are often sent as audio. */
const UNREAD: readonly Signature[] = [
  ["AMR", 0, "#!AMR"],
  ["WMA or WMV", 0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11"],
  ["AVI", 8, "AVI "],
  ["Digital Speech Standard (DSS)", 1, "dss"],
  ["Digital Speech Standard (DS2)", 1, "ds2"],
  ["AC-3", 0, "\x0b\x77"],
  ["DTS", 0, "\x7f\xfe\x80\x01"],
  ["DTS", 0, "\xfe\x7f\x01\x80"],
  ["DTS", 0, "\x1f\xff\xe8\x00"],
  ["DTS", 0, "\xff\x1f\x00\xe8"],
  ["DTS-HD", 0, "DTSHDHDR"],
  ["TrueHD", 4, "\xf8\x72\x6f\xba"],
  ["MLP", 4, "\xf8\x72\x6f\xbb"],
  ["AAC in LATM", 0, "\x56\xe0"],
  ["AAC in LATM", 0, "\x56\xe1"],
  ["MPEG program stream", 0, "\x00\x00\x01\xba"],
  ["MPEG transport stream", 0, "\x47\x40"],
  ["MPEG transport stream", 4, "\x47\x40"],
  ["NUT", 0, "nut/multimedia container"],
  ["Creative Voice (VOC)", 0, "Creative Voice File"],
  ["IRCAM sound", 0, "\x64\xa3"],
  ["IRCAM sound", 1, "\0\xa3\x64"],
  ["NIST Sphere", 0, "NIST_1A"],
  ["SoX's own format", 0, ".SoX"],
  ["8SVX", 8, "8SVX"],
  ["Optimized DSD (DSDIFF)", 0, "FRM8"],
  ["Sony ATRAC (OMA)", 0, "ea3"],
  ["Flash video", 0, "FLV\x01"],
  ["WavPack", 0, "wvpk"],
  ["TTA", 0, "TTA1"],
  ["Monkey's Audio", 0, "MAC "],
  ["Musepack", 0, "MPCK"],
  ["DSD", 0, "DSD "],
  ["RealMedia", 0, ".RMF"],
  ["MIDI", 0, "MThd"],
];

/** Longest time without yielding to other work of the thread. */
const MAX_BUSY_MS = 10;

const MAX_PIECE_SAMPLES = 65_536;

/** How an audio file is decoded. */
export interface DecodeAudioOptions {
  /** The sample rate to convert to. */
  readonly sampleRateHz: number;
  readonly signal?: AbortSignal | undefined;
  /** Called once, with a sentence, if the file ends early. What is there is decoded. */
  readonly onTruncated?: ((message: string) => void) | undefined;
  /** Path or name of an ffmpeg that converts formats not read here. */
  readonly ffmpeg?: string | undefined;
}

/**
 * Decodes an audio file chunk by chunk, in bounded memory. The format is detected from the content; channels are
 * averaged.
 *
 * @returns f32 chunks of any length, owned by the caller.
 * @throws {HearthError} `invalid_media` when the file is not audio, damaged beyond use, or longer than
 * {@linkcode MAX_AUDIO_HOURS}; possibly after the first chunks.
 */
export async function* decodeAudio(
  file: Uint8Array<ArrayBuffer>,
  options: DecodeAudioOptions,
): AsyncGenerator<Float32Array<ArrayBuffer>, void> {
  try {
    yield* decodeRead(file, options);
  } catch (error) {
    const { ffmpeg, sampleRateHz, signal } = options;
    // This error is thrown before any sound is yielded, so ffmpeg can start from the beginning.
    if (!(error instanceof UnreadSoundError) || ffmpeg === undefined) throw error;
    yield* convertWithFfmpeg(file, { program: ffmpeg, sampleRateHz, signal });
  }
}

async function* decodeRead(
  file: Uint8Array<ArrayBuffer>,
  { sampleRateHz, signal, onTruncated }: DecodeAudioOptions,
): AsyncGenerator<Float32Array<ArrayBuffer>, void> {
  const format = detect(file);
  let truncated: string | undefined;
  const decoding = {
    onTruncated: (what: string) => {
      truncated ??= `The ${format.name} file was cut or is damaged: ${what}.`;
    },
  };
  let inputRateHz: number | undefined;
  let resampler: AudioResampler | undefined;
  let seconds = 0;
  let resumedMs = performance.now();
  for await (const { channels, sampleRateHz: rateHz } of cutLong(guard(format, file, decoding))) {
    if (performance.now() - resumedMs > MAX_BUSY_MS) {
      await yieldToEvents();
      resumedMs = performance.now();
    }
    signal?.throwIfAborted();
    if (rateHz !== inputRateHz) {
      if (resampler !== undefined) yield resampler.flush();
      checkSampleRate(rateHz);
      inputRateHz = rateHz;
      resampler = rateHz === sampleRateHz ? undefined : new AudioResampler(rateHz, sampleRateHz);
    }
    seconds += channels[0]!.length / rateHz;
    if (seconds > MAX_AUDIO_HOURS * 3600) {
      throw invalidAudio(
        `The ${format.name} file lasts longer than ${MAX_AUDIO_HOURS} hours, which is the limit.`,
      );
    }
    const mono = mixDown(channels);
    yield resampler === undefined ? mono : resampler.push(mono);
  }
  if (seconds === 0) throw invalidAudio(truncated ?? `The ${format.name} file holds no sound.`);
  if (resampler !== undefined) yield resampler.flush();
  if (truncated !== undefined) onTruncated?.(truncated);
}

/** Whether a file that is not an image has a format that is read here. */
export function isAudio(file: Uint8Array): boolean {
  return FORMATS.some(({ matches }) => matches(file));
}

function detect(file: Uint8Array): AudioFormat {
  if (file.length === 0) throw invalidAudio("The audio file is empty.");
  const format = FORMATS.find(({ matches }) => matches(file));
  if (format !== undefined) return format;
  if (isFreeMp3(file)) {
    throw new UnreadSoundError(
      "The MP3 file is in free format: its frames have no bitrate that tells their length. " +
        "One with a bitrate of up to 320 kbit/s is expected, or WAV.",
    );
  }
  const read = FORMATS.map(({ name }) => name);
  throw new UnreadSoundError(
    describeUnread(file, { kind: "supported audio", unread: UNREAD, read }),
  );
}

/** Cuts long sounds: a few bytes of silence can expand to minutes, which must not be processed without yielding. */
async function* cutLong(sounds: AsyncIterable<Sound>): AsyncGenerator<Sound, void> {
  for await (const sound of sounds) {
    const length = sound.channels[0]?.length ?? 0;
    for (let at = 0; at < length; at += MAX_PIECE_SAMPLES) {
      const channels = sound.channels.map((samples) =>
        samples.subarray(at, at + MAX_PIECE_SAMPLES)
      );
      yield { ...sound, channels };
    }
  }
}

/** Converts errors: any error of a decoder means that the file is damaged. */
async function* guard(
  { name, read }: AudioFormat,
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  try {
    yield* read(file, decoding);
  } catch (error) {
    if (error instanceof HearthError) throw error;
    throw invalidAudio(`The ${name} file is damaged and cannot be decoded.`, error);
  }
}

/** Largest sample: louder than any recording, and small enough that no spectrum overflows. */
const MAX_AMPLITUDE = 65_536;

/** If the average has a smaller share of the loudest channel's energy than this, the channels cancel each other out. */
const CANCELLED_SHARE = 0.01;

/**
 * Averages the channels. If they cancel each other out, as when one was recorded inverted, takes the loudest one. NaN
 * becomes silence.
 */
function mixDown(channels: readonly Float32Array[]): Float32Array<ArrayBuffer> {
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
