/**
 * The formats in which sound can be written, and the writers of raw samples and WAV files.
 *
 * @module
 */
import { joinBytes } from "../base/bytes.ts";
import { AudioResampler } from "./sound_rate.ts";

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

/** Writes a file incrementally: the results of `write` and `finish`, joined in order, are the file. */
export interface SoundWriter {
  /**
   * @param samples f32 of one channel, -1 to 1; values beyond are clipped.
   * @returns the bytes that are ready, if any; owned by the caller.
   */
  write(samples: Float32Array): Uint8Array<ArrayBuffer>;
  /**
   * Ends the file.
   *
   * @returns its last bytes, if any; owned by the caller.
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
    // Rounds like Math.round(), in a quarter of the time.
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

/** The rate that OpenAI's clients assume for samples without a header. */
const BARE_RATE_HZ = 24_000;

const NOTHING = new Uint8Array(0);

/** Writes a 16-bit WAV file. The header gives no length, since it is written before the length is known. */
export class WavWriter implements SoundWriter {
  readonly #sampleRateHz: number;
  #hasBegun = false;

  constructor(sampleRateHz: number) {
    this.#sampleRateHz = sampleRateHz;
  }

  write(samples: Float32Array): Uint8Array<ArrayBuffer> {
    const data = toBytes(toInt16(samples));
    if (this.#hasBegun) return data;
    this.#hasBegun = true;
    return joinBytes([makeWavHeader(this.#sampleRateHz), data]);
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#hasBegun ? NOTHING : this.write(new Float32Array(0));
  }

  dispose(): void {}
}

/** Writes 16-bit little-endian samples at {@linkcode BARE_RATE_HZ}, without a header. */
export class PcmWriter implements SoundWriter {
  readonly #resampler: AudioResampler | undefined;

  constructor(sampleRateHz: number) {
    if (sampleRateHz !== BARE_RATE_HZ) {
      this.#resampler = new AudioResampler(sampleRateHz, BARE_RATE_HZ);
    }
  }

  write(samples: Float32Array): Uint8Array<ArrayBuffer> {
    return toBytes(toInt16(this.#resampler?.push(samples) ?? samples));
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#resampler === undefined ? NOTHING : toBytes(toInt16(this.#resampler.flush()));
  }

  dispose(): void {}
}

/** Makes a whole WAV file of one channel. */
export function makeWavFile(
  samples: Int16Array<ArrayBuffer>,
  sampleRateHz: number,
): Uint8Array<ArrayBuffer> {
  const file = joinBytes([makeWavHeader(sampleRateHz), toBytes(samples)]);
  closeWavHeader(file);
  return file;
}

/** The bytes of samples. Every machine that Deno runs on is little-endian, as the formats are. */
function toBytes({ buffer, byteOffset, byteLength }: Int16Array<ArrayBuffer>) {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

const HEADER_BYTES = 44;
const RIFF_SIZE_AT = 4;
const DATA_SIZE_AT = 40;
/** Placeholder for an unknown size. */
const UNKNOWN_SIZE = 0xffff_ffff;

/** Makes a header without the length. */
function makeWavHeader(sampleRateHz: number): Uint8Array<ArrayBuffer> {
  const header = new Uint8Array(HEADER_BYTES);
  const view = new DataView(header.buffer);
  const write = (at: number, name: string) => {
    for (let i = 0; i < name.length; i++) header[at + i] = name.charCodeAt(i);
  };
  write(0, "RIFF");
  view.setUint32(RIFF_SIZE_AT, UNKNOWN_SIZE, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sampleRateHz, true);
  view.setUint32(28, 2 * sampleRateHz, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(DATA_SIZE_AT, UNKNOWN_SIZE, true);
  return header;
}

/**
 * Writes the length of a complete file into its header.
 *
 * @param file begins with a header made by {@linkcode makeWavHeader}; changed in place.
 */
export function closeWavHeader(file: Uint8Array): void {
  const view = new DataView(file.buffer, file.byteOffset);
  view.setUint32(RIFF_SIZE_AT, file.length - 8, true);
  view.setUint32(DATA_SIZE_AT, file.length - HEADER_BYTES, true);
}
