/**
 * Writes sound as a file of any supported format.
 *
 * @module
 */
import {
  clip,
  PcmWriter,
  type SoundFormat,
  type SoundWriter,
  toInt16,
  WavWriter,
} from "./sound_format.ts";
import { joinBytes } from "../base/bytes.ts";
import { AudioResampler } from "./sound_rate.ts";
import { makeOggPage } from "./audio/ogg_pages.ts";
import { OPUS_RATE_HZ } from "./audio/opus.ts";

/**
 * Begins a file of one channel. The encoder is loaded with the first file of its format.
 *
 * @param sampleRateHz rate of the sound; the file has the same rate if its format supports it.
 */
export async function createSoundWriter(
  format: SoundFormat,
  sampleRateHz: number,
): Promise<SoundWriter> {
  switch (format) {
    case "mp3":
      return await createMp3Writer(sampleRateHz);
    case "opus":
      return await createOpusWriter(sampleRateHz);
    case "flac":
      return await createFlacWriter(sampleRateHz);
    case "wav":
      return new WavWriter(sampleRateHz);
    case "pcm":
      return new PcmWriter(sampleRateHz);
  }
}

/** Transparent quality for one voice. */
const MP3_BITRATE_KBPS = 96;
/** The highest bit rate that the encoder uses below 16 kHz. */
const MP3_LOW_RATE_BITRATE_KBPS = 64;
const MP3_RATES_HZ = [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];
/** Rate of an MP3 file if MP3 does not support the rate of the sound. */
const MP3_OTHER_RATE_HZ = 24_000;

type Mp3Encoder = Awaited<ReturnType<typeof import("wasm-media-encoders").createMp3Encoder>>;

/** MP3 encoders to reuse: each is a WebAssembly instance, which takes longer to create than a sentence to encode. */
const idleEncoders: Mp3Encoder[] = [];

/** Begins an MP3 file. If MP3 does not support the sample rate, the sound is resampled. */
async function createMp3Writer(sampleRateHz: number): Promise<SoundWriter> {
  const { createMp3Encoder } = await import("wasm-media-encoders");
  const encoder = idleEncoders.pop() ?? await createMp3Encoder();
  const isKnown = MP3_RATES_HZ.includes(sampleRateHz);
  const rateHz = isKnown ? sampleRateHz : MP3_OTHER_RATE_HZ;
  const resampler = isKnown ? undefined : new AudioResampler(sampleRateHz, rateHz);
  encoder.configure({
    channels: 1,
    sampleRate: rateHz,
    bitrate: rateHz < 16_000 ? MP3_LOW_RATE_BITRATE_KBPS : MP3_BITRATE_KBPS,
  });
  // The result is copied, since the next call overwrites the encoder's memory.
  const encode = (samples: Float32Array) => encoder.encode([clip(samples)]).slice();
  return {
    write: (samples) => encode(resampler?.push(samples) ?? samples),
    finish: () => {
      const last = resampler === undefined ? new Uint8Array(0) : encode(resampler.flush());
      return joinBytes([last, encoder.finalize()]);
    },
    dispose: () => void idleEncoders.push(encoder),
  };
}

const FLAC_BITS_PER_SAMPLE = 16;
const FLAC_COMPRESSION_LEVEL = 5;

/** The functions of libflac.js that are used here. The package's own types describe its loader instead. */
interface LibFlac {
  isReady(): boolean;
  on(event: "ready", listener: () => void): void;
  create_libflac_encoder(
    sampleRateHz: number,
    channels: number,
    bitsPerSample: number,
    level: number,
    totalSamples: number,
  ): number;
  init_encoder_stream(encoder: number, onBytes: (bytes: Uint8Array) => void): number;
  FLAC__stream_encoder_process_interleaved(
    encoder: number,
    samples: Int32Array,
    count: number,
  ): boolean;
  FLAC__stream_encoder_finish(encoder: number): boolean;
  FLAC__stream_encoder_delete(encoder: number): void;
}

let libFlac: Promise<LibFlac> | undefined;

async function loadLibFlac(): Promise<LibFlac> {
  const { default: flac } = await import("libflacjs/dist/libflac.js") as { default: LibFlac };
  if (!flac.isReady()) await new Promise<void>((resolve) => flac.on("ready", resolve));
  return flac;
}

/**
 * Begins a FLAC file. The header gives no length, since it is written before the length is known.
 *
 * @throws {Error} when the encoder does not support the sample rate.
 */
async function createFlacWriter(sampleRateHz: number): Promise<SoundWriter> {
  const flac = await (libFlac ??= loadLibFlac());
  let ready: Uint8Array[] = [];
  const encoder = flac.create_libflac_encoder(
    sampleRateHz,
    1,
    FLAC_BITS_PER_SAMPLE,
    FLAC_COMPRESSION_LEVEL,
    0,
  );
  // The result is copied, since the next call overwrites the library's memory.
  const status = flac.init_encoder_stream(encoder, (bytes) => ready.push(bytes.slice()));
  if (status !== 0) throw new Error(`FLAC cannot be written at ${sampleRateHz} Hz (${status}).`);
  let isFinished = false;
  const take = () => {
    const bytes = joinBytes(ready);
    ready = [];
    return bytes;
  };
  return {
    write: (samples) => {
      const integers = Int32Array.from(toInt16(samples));
      flac.FLAC__stream_encoder_process_interleaved(encoder, integers, integers.length);
      return take();
    },
    finish: () => {
      isFinished = true;
      flac.FLAC__stream_encoder_finish(encoder);
      return take();
    },
    dispose: () => {
      if (!isFinished) flac.FLAC__stream_encoder_finish(encoder);
      flac.FLAC__stream_encoder_delete(encoder);
    },
  };
}

/** Sample rates supported by the encoder. */
const OPUS_RATES_HZ = [8_000, 12_000, 16_000, 24_000, 48_000];
/** Good enough for one voice. */
const OPUS_BITRATE = 48_000;
/** Encoder effort, 0 to 10: this is twice as fast as the highest, and sounds the same at this bit rate. */
const OPUS_COMPLEXITY = 5;
const FRAMES_PER_SECOND = 50;
/** Serial number of the file's only stream. */
const SERIAL = 1;
const VENDOR = "Hearth";

/** The encoder of the Opus library, which has no types; only what is used here. */
interface OpusEncoder {
  bitrate: number;
  complexity: number;
  signal: "voice";
  /** The encoder's delay, in samples at the input's rate. */
  readonly lookahead: number;
  encode(frame: Int16Array): Uint8Array;
  drop(): void;
}

interface OpusLibrary {
  readonly Encoder: new (options: {
    channels: number;
    sample_rate: number;
    application: "audio" | "voip";
  }) => OpusEncoder;
}

/**
 * Begins an Opus file in Ogg (RFC 7845). If Opus does not support the sample rate, the sound is resampled to 48 kHz.
 */
async function createOpusWriter(sampleRateHz: number): Promise<SoundWriter> {
  const { Encoder } = await import("@evan/wasm/target/opus/deno.js") as unknown as OpusLibrary;
  const rateHz = OPUS_RATES_HZ.includes(sampleRateHz) ? sampleRateHz : OPUS_RATE_HZ;
  const encoder = new Encoder({ channels: 1, sample_rate: rateHz, application: "audio" });
  encoder.bitrate = OPUS_BITRATE;
  encoder.complexity = OPUS_COMPLEXITY;
  encoder.signal = "voice";
  const resampler = rateHz === sampleRateHz ? undefined : new AudioResampler(sampleRateHz, rateHz);
  return new OpusWriter({ encoder, rateHz, sampleRateHz, resampler });
}

class OpusWriter implements SoundWriter {
  readonly #encoder: OpusEncoder;
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
    readonly encoder: OpusEncoder;
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
    this.#head = [makeOpusHead(this.#preSkip, parts.sampleRateHz), makeOpusTags()];
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

  /** @param endsAt position at which the sound ends, in samples at 48 kHz, if these samples end the file. */
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

/** The identification header (RFC 7845, section 5.1). */
function makeOpusHead(preSkip: number, sampleRateHz: number): Uint8Array {
  const head = new Uint8Array(19);
  const view = new DataView(head.buffer);
  head.set(new TextEncoder().encode("OpusHead"));
  view.setUint8(8, 1);
  view.setUint8(9, 1);
  view.setUint16(10, preSkip, true);
  view.setUint32(12, sampleRateHz, true);
  return head;
}

/** The comment header (RFC 7845, section 5.2), without comments. */
function makeOpusTags(): Uint8Array {
  const vendor = new TextEncoder().encode(VENDOR);
  const tags = new Uint8Array(8 + 4 + vendor.length + 4);
  tags.set(new TextEncoder().encode("OpusTags"));
  new DataView(tags.buffer).setUint32(8, vendor.length, true);
  tags.set(vendor, 12);
  return tags;
}
