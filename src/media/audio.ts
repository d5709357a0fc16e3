/**
 * Decodes an audio file of any common format to one channel at one sample rate: once from start to end, or with random
 * access in bounded memory.
 *
 * @module
 */
import { HearthError, invalidMedia } from "../base/errors.ts";
import { yieldToEvents } from "../base/timing.ts";
import { findAdts, readAdts } from "./audio/aac.ts";
import { isAiff, isAu, readAiff, readAu } from "./audio/aiff.ts";
import { isCaf, readCaf } from "./audio/caf.ts";
import { findFlac, readFlac } from "./audio/flac.ts";
import { findMp3, isFreeMp3, readMp3, skipId3 } from "./audio/mp3.ts";
import { isMp4, readMp4 } from "./audio/mp4.ts";
import { readOgg } from "./audio/ogg.ts";
import { isOgg } from "./audio/ogg_pages.ts";
import {
  checkSampleRate,
  type Decoding,
  MAX_AUDIO_HOURS,
  mixDown,
  regroup,
  type Sound,
  type SoundReader,
  UnreadSoundError,
} from "./audio/sound.ts";
import { isWav, readWav } from "./audio/wav.ts";
import { isWebm, readWebm } from "./audio/webm.ts";
import { convertWithFfmpeg } from "./ffmpeg.ts";
import { AudioResampler } from "./sound_rate.ts";
import { describeUnread, nameUnread } from "./file_bytes.ts";

interface AudioFormat {
  readonly name: string;
  readonly matches: (file: Uint8Array) => boolean;
  readonly read: SoundReader;
  /** Whether the format has no signature: its frames are searched for, and may be found inside other formats too. */
  readonly isSearched?: boolean;
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
  {
    name: "AAC",
    matches: (file) => findAdts(file) !== undefined,
    read: readAdts,
    isSearched: true,
  },
  { name: "MP3", matches: (file) => findMp3(file) !== undefined, read: readMp3, isSearched: true },
];

/** Longest time without yielding to other work of the thread. */
const MAX_BUSY_MS = 10;

/** Options for decoding an audio file. */
interface DecodeAudioOptions {
  /** The sample rate to convert to. */
  readonly sampleRateHz: number;
  readonly signal?: AbortSignal | undefined;
  /** Called at the end, with a sentence, if the file was cut or is damaged and a part of it could be decoded. */
  readonly onTruncated?: ((message: string) => void) | undefined;
  /** Path or name of an ffmpeg that converts unsupported formats. */
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
    yield* decodeHere(file, options);
  } catch (error) {
    const { ffmpeg, sampleRateHz, signal } = options;
    // This error is thrown before any sound is yielded, so ffmpeg can start from the beginning.
    if (!(error instanceof UnreadSoundError) || ffmpeg === undefined) throw error;
    yield* convertWithFfmpeg(file, { program: ffmpeg, sampleRateHz, signal });
  }
}

async function* decodeHere(
  whole: Uint8Array<ArrayBuffer>,
  { sampleRateHz, signal, onTruncated }: DecodeAudioOptions,
): AsyncGenerator<Float32Array<ArrayBuffer>, void> {
  const file = skipTag(whole);
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
  for await (const { channels, sampleRateHz: rateHz } of regroup(guard(format, file, decoding))) {
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
      throw invalidMedia(
        `The ${format.name} file lasts longer than ${MAX_AUDIO_HOURS} hours, which is the limit.`,
      );
    }
    const mono = mixDown(channels);
    yield resampler === undefined ? mono : resampler.push(mono);
  }
  if (seconds === 0) throw invalidMedia(truncated ?? `The ${format.name} file holds no sound.`);
  if (resampler !== undefined) yield resampler.flush();
  if (truncated !== undefined) onTruncated?.(truncated);
}

/** Whether a file has a supported audio format; call it only for files that are not images. */
export function isAudio(file: Uint8Array): boolean {
  const content = skipTag(file);
  return FORMATS.some(({ matches }) => matches(content));
}

/** A file's content after an ID3 tag, which some programs put before any format. */
function skipTag<Buffer extends ArrayBufferLike>(file: Uint8Array<Buffer>): Uint8Array<Buffer> {
  const start = skipId3(file);
  return start < file.length ? file.subarray(start) : file;
}

function detect(file: Uint8Array): AudioFormat {
  if (file.length === 0) throw invalidMedia("The audio file is empty.");
  const isOther = nameUnread(file, "audio") !== undefined;
  const format = FORMATS.find(({ matches, isSearched }) =>
    !(isOther && isSearched) && matches(file)
  );
  if (format !== undefined) return format;
  if (isFreeMp3(file)) {
    throw new UnreadSoundError(
      "The MP3 file is in free format: its frames give no bitrate, so their length is unknown. " +
        "MP3 with a bitrate of up to 320 kbit/s is expected, or WAV.",
    );
  }
  const read = FORMATS.map(({ name }) => name);
  throw new UnreadSoundError(describeUnread(file, "audio", read));
}

/** Converts errors: any error that a decoder throws means that the file is damaged. */
async function* guard(
  { name, read }: AudioFormat,
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  try {
    yield* read(file, decoding);
  } catch (error) {
    if (error instanceof HearthError) throw error;
    throw invalidMedia(`The ${name} file is damaged and cannot be decoded.`, error);
  }
}

/** Number of samples kept in memory: a quarter of an hour at 16 kHz, 58 MB. */
const KEPT_SAMPLES = 15 * 60 * 16_000;
/** Number of samples in a block, the unit in which samples are dropped from memory. */
const BLOCK_SAMPLES = 65_536;

/** Options for reading a recording. */
interface AudioReaderOptions extends DecodeAudioOptions {
  /** Number of samples kept in memory between calls, rounded up to blocks of 65,536. */
  readonly keptSamples?: number;
}

/**
 * Reads a recording at any position. A recording that fits into the kept samples is decoded once. A longer one is
 * decoded again whenever a range before the kept samples is requested, so it is best read from start to end.
 */
export class AudioReader implements AsyncDisposable {
  readonly sampleRateHz: number;
  readonly #file: Uint8Array<ArrayBuffer>;
  readonly #options: AudioReaderOptions;
  readonly #maxBlocks: number;
  #decoding: AsyncGenerator<Float32Array, void> | undefined;
  /** Kept blocks; all but the last are full. */
  #blocks: Float32Array[] = [];
  /** Number of blocks dropped before the kept ones. */
  #numDropped = 0;
  /** Samples decoded so far. */
  #end = 0;
  #length: number | undefined;
  #truncated: string | undefined;

  constructor(file: Uint8Array<ArrayBuffer>, options: AudioReaderOptions) {
    this.sampleRateHz = options.sampleRateHz;
    this.#file = file;
    this.#options = options;
    this.#maxBlocks = Math.ceil((options.keptSamples ?? KEPT_SAMPLES) / BLOCK_SAMPLES);
  }

  /** A sentence that says what is missing, if the file ends early; known after the whole file is decoded. */
  get truncated(): string | undefined {
    return this.#truncated;
  }

  /**
   * Decodes the whole file, which verifies it and measures its length.
   *
   * @param visit receives all samples, chunk by chunk, and must not keep them.
   * @returns the number of samples, at least one.
   * @throws {HearthError} `invalid_media`, as {@linkcode decodeAudio}.
   * @throws the signal's reason.
   */
  async scan(visit?: (samples: Float32Array) => Promise<void>): Promise<number> {
    if (this.#numDropped > 0) await this.#rewind();
    for (const [index, block] of [...this.#blocks].entries()) {
      await visit?.(block.subarray(0, this.#end - index * BLOCK_SAMPLES));
    }
    for (let chunk = await this.#next(); chunk !== undefined; chunk = await this.#next()) {
      this.#keepFrom(Infinity);
      await visit?.(chunk);
    }
    return this.#length!;
  }

  /**
   * Reads samples from `start` to before `end`; fewer if the recording ends earlier.
   *
   * @returns f32, a copy for the caller.
   */
  async read(start: number, end: number): Promise<Float32Array> {
    if (start < this.#numDropped * BLOCK_SAMPLES) await this.#rewind();
    while (this.#end < end && await this.#next() !== undefined) this.#keepFrom(start);
    const samples = new Float32Array(Math.max(0, Math.min(end, this.#end) - start));
    for (let at = start; at < start + samples.length;) {
      const block = this.#blocks[Math.floor(at / BLOCK_SAMPLES) - this.#numDropped]!;
      const from = at % BLOCK_SAMPLES;
      const chunk = block.subarray(from, from + start + samples.length - at);
      samples.set(chunk, at - start);
      at += chunk.length;
    }
    return samples;
  }

  /** Frees the decoder and the kept samples. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#decoding?.return();
    this.#decoding = undefined;
    this.#blocks = [];
  }

  /** Decodes the next chunk into the blocks; `undefined` at the end. */
  async #next(): Promise<Float32Array | undefined> {
    if (this.#end === this.#length) return undefined;
    this.#decoding ??= decodeAudio(this.#file, {
      ...this.#options,
      onTruncated: (message) => this.#truncated = message,
    });
    const { done, value } = await this.#decoding.next();
    if (done) {
      this.#length = this.#end;
      return undefined;
    }
    for (let at = 0; at < value.length;) {
      if (this.#end % BLOCK_SAMPLES === 0) this.#blocks.push(new Float32Array(BLOCK_SAMPLES));
      const from = this.#end % BLOCK_SAMPLES;
      const part = value.subarray(at, at + BLOCK_SAMPLES - from);
      this.#blocks.at(-1)!.set(part, from);
      at += part.length;
      this.#end += part.length;
    }
    return value;
  }

  /** Drops blocks that exceed the limit and lie before `start`. */
  #keepFrom(start: number): void {
    while (
      this.#blocks.length > this.#maxBlocks && (this.#numDropped + 1) * BLOCK_SAMPLES <= start
    ) {
      this.#blocks.shift();
      this.#numDropped++;
    }
  }

  async #rewind(): Promise<void> {
    await this[Symbol.asyncDispose]();
    this.#numDropped = 0;
    this.#end = 0;
  }
}
