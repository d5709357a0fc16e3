/**
 * Writes Opus in Ogg (RFC 7845), with libopus.
 *
 * @module
 */
import { joinBytes } from "../base/join_bytes.ts";
import { makeOggPage } from "./audio/ogg_pages.ts";
import { OPUS_RATE_HZ } from "./audio/opus.ts";
import { AudioResampler } from "./sound_rate.ts";
import { type SoundWriter, toInt16 } from "./sound_format.ts";

/** Sample rates supported by the encoder. */
const RATES_HZ = [8_000, 12_000, 16_000, 24_000, 48_000];
/** Good enough for one voice. */
const BITRATE = 48_000;
/** Encoder effort, 0 to 10: this is twice as fast as the highest, and sounds the same at this bit rate. */
const COMPLEXITY = 5;
const FRAMES_PER_SECOND = 50;
/** Serial number of the file's only stream. */
const SERIAL = 1;
const VENDOR = "Hearth";

/** The part of the library that is used here; it has no types. */
interface Encoder {
  bitrate: number;
  complexity: number;
  signal: "voice";
  /** The encoder's delay, in samples at the input's rate. */
  readonly lookahead: number;
  encode(frame: Int16Array): Uint8Array;
  drop(): void;
}

interface Library {
  readonly Encoder: new (options: {
    channels: number;
    sample_rate: number;
    application: "audio" | "voip";
  }) => Encoder;
}

/** Begins a file. If Opus does not support the sample rate, the sound is resampled to 48 kHz. */
export async function createOpusWriter(sampleRateHz: number): Promise<SoundWriter> {
  const { Encoder } = await import("@evan/wasm/target/opus/deno.js") as unknown as Library;
  const rateHz = RATES_HZ.includes(sampleRateHz) ? sampleRateHz : OPUS_RATE_HZ;
  const encoder = new Encoder({ channels: 1, sample_rate: rateHz, application: "audio" });
  encoder.bitrate = BITRATE;
  encoder.complexity = COMPLEXITY;
  encoder.signal = "voice";
  const resampler = rateHz === sampleRateHz ? undefined : new AudioResampler(sampleRateHz, rateHz);
  return new OpusWriter({ encoder, rateHz, sampleRateHz, resampler });
}

class OpusWriter implements SoundWriter {
  readonly #encoder: Encoder;
  readonly #resampler: AudioResampler | undefined;
  readonly #head: readonly Uint8Array[];
  readonly #frameSamples: number;
  /** Samples at 48 kHz per sample of the encoder. */
  readonly #scale: number;
  readonly #preSkip: number;
  /** Samples that do not fill a frame yet. */
  #rest = new Int16Array(0);
  #numSamples = 0;
  #numFrames = 0;
  #numPages = 0;

  constructor(parts: {
    readonly encoder: Encoder;
    /** Sample rate of the encoder. */
    readonly rateHz: number;
    /** Sample rate of the sound. */
    readonly sampleRateHz: number;
    readonly resampler: AudioResampler | undefined;
  }) {
    this.#encoder = parts.encoder;
    this.#resampler = parts.resampler;
    this.#frameSamples = parts.rateHz / FRAMES_PER_SECOND;
    this.#scale = OPUS_RATE_HZ / parts.rateHz;
    this.#preSkip = parts.encoder.lookahead * this.#scale;
    this.#head = [makeHead(this.#preSkip, parts.sampleRateHz), makeTags()];
  }

  write(samples: Float32Array): Uint8Array<ArrayBuffer> {
    return joinBytes(this.#encode(toInt16(this.#resampler?.push(samples) ?? samples)));
  }

  finish(): Uint8Array<ArrayBuffer> {
    const last = this.#resampler === undefined
      ? []
      : this.#encode(toInt16(this.#resampler.flush()));
    // The last samples come out of the encoder after as many samples of silence as its delay.
    const end = this.#numSamples;
    const lag = this.#preSkip / this.#scale;
    const numFrames = Math.ceil((end + lag) / this.#frameSamples);
    const silence = new Int16Array(numFrames * this.#frameSamples - end);
    const endsAt = this.#preSkip + end * this.#scale;
    return joinBytes([...last, ...this.#encode(silence, endsAt)]);
  }

  dispose(): void {
    this.#encoder.drop();
  }

  /** @param endsAt position at which the sound ends, if these samples end the file. */
  #encode(samples: Int16Array, endsAt?: number): Uint8Array[] {
    const pages = this.#numPages === 0 ? this.#head.map((packet) => this.#page(packet, 0)) : [];
    if (endsAt === undefined) this.#numSamples += samples.length;
    const whole = new Int16Array(this.#rest.length + samples.length);
    whole.set(this.#rest);
    whole.set(samples, this.#rest.length);
    let at = 0;
    for (; at + this.#frameSamples <= whole.length; at += this.#frameSamples) {
      const packet = this.#encoder.encode(whole.subarray(at, at + this.#frameSamples));
      const granule = ++this.#numFrames * this.#frameSamples * this.#scale;
      const isLast = endsAt !== undefined && at + this.#frameSamples === whole.length;
      pages.push(this.#page(packet, isLast ? endsAt : granule, isLast));
    }
    this.#rest = whole.slice(at);
    return pages;
  }

  #page(packet: Uint8Array, granule: number, isLast = false): Uint8Array {
    return makeOggPage(packet, this.#numPages++, { granule, isLast, serial: SERIAL });
  }
}

/** The identification header (section 5.1). */
function makeHead(preSkip: number, sampleRateHz: number): Uint8Array {
  const head = new Uint8Array(19);
  const view = new DataView(head.buffer);
  head.set(new TextEncoder().encode("OpusHead"));
  view.setUint8(8, 1);
  view.setUint8(9, 1);
  view.setUint16(10, preSkip, true);
  view.setUint32(12, sampleRateHz, true);
  return head;
}

/** The comment header (section 5.2), without comments. */
function makeTags(): Uint8Array {
  const vendor = new TextEncoder().encode(VENDOR);
  const tags = new Uint8Array(8 + 4 + vendor.length + 4);
  tags.set(new TextEncoder().encode("OpusTags"));
  new DataView(tags.buffer).setUint32(8, vendor.length, true);
  tags.set(vendor, 12);
  return tags;
}
