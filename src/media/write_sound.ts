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
import { createOpusWriter } from "./opus_writer.ts";
import { joinBytes } from "../base/join_bytes.ts";
import { AudioResampler } from "./sound_rate.ts";

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
const BITRATE_KBPS = 96;
/** The highest bit rate that MP3 allows below 16 kHz. */
const LOW_RATE_BITRATE_KBPS = 64;
const RATES_HZ = [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];
const OTHER_RATE_HZ = 24_000;

type Encoder = Awaited<ReturnType<typeof import("wasm-media-encoders").createMp3Encoder>>;

/** Encoders to reuse: each is a WebAssembly instance, which takes longer to create than a sentence to encode. */
const idle: Encoder[] = [];

/** Begins a file. If the format does not support the sample rate, sound is converted to one that it does. */
async function createMp3Writer(sampleRateHz: number): Promise<SoundWriter> {
  const { createMp3Encoder } = await import("wasm-media-encoders");
  const encoder = idle.pop() ?? await createMp3Encoder();
  const isKnown = RATES_HZ.includes(sampleRateHz);
  const rateHz = isKnown ? sampleRateHz : OTHER_RATE_HZ;
  const resampler = isKnown ? undefined : new AudioResampler(sampleRateHz, rateHz);
  encoder.configure({
    channels: 1,
    sampleRate: rateHz,
    bitrate: rateHz < 16_000 ? LOW_RATE_BITRATE_KBPS : BITRATE_KBPS,
  });
  // The result is copied, since the next call overwrites the encoder's memory.
  const encode = (samples: Float32Array) => encoder.encode([clip(samples)]).slice();
  return {
    write: (samples) => encode(resampler?.push(samples) ?? samples),
    finish: () => {
      const last = resampler === undefined ? new Uint8Array(0) : encode(resampler.flush());
      return joinBytes([last, encoder.finalize()]);
    },
    dispose: () => void idle.push(encoder),
  };
}

const BITS_PER_SAMPLE = 16;
const COMPRESSION_LEVEL = 5;

/** The part of the library that is used here. Its own types describe another factory, which reads files. */
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

let library: Promise<LibFlac> | undefined;

async function loadLibrary(): Promise<LibFlac> {
  const { default: flac } = await import("libflacjs/dist/libflac.js") as { default: LibFlac };
  if (!flac.isReady()) await new Promise<void>((resolve) => flac.on("ready", resolve));
  return flac;
}

/**
 * Begins a file. Its header leaves the length open, since it is not known before the end.
 *
 * @throws {Error} when the encoder does not support the sample rate.
 */
async function createFlacWriter(sampleRateHz: number): Promise<SoundWriter> {
  const flac = await (library ??= loadLibrary());
  let ready: Uint8Array[] = [];
  const encoder = flac.create_libflac_encoder(
    sampleRateHz,
    1,
    BITS_PER_SAMPLE,
    COMPRESSION_LEVEL,
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
