/**
 * Writes raw samples and WAV files.
 *
 * @module
 */
import { joinBytes } from "../../join_bytes.ts";
import { AudioResampler } from "../resample_audio.ts";
import { type SoundWriter, toInt16 } from "./sound_writer.ts";
import { makeWavHeader } from "./wav_header.ts";

/** The rate at which OpenAI's clients expect samples without a header. */
const BARE_RATE_HZ = 24_000;

const NOTHING = new Uint8Array(0);

/** Writes a WAV file of 16 bits, whose header leaves its length open: it is not known before the end. */
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

/** Writes samples of 16 bits, lowest byte first, at {@linkcode BARE_RATE_HZ}. */
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

/** Every machine that Deno runs on stores the lowest byte first, as the formats want it. */
function toBytes({ buffer, byteOffset, byteLength }: Int16Array<ArrayBuffer>) {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
