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
const MP3_BITRATE_KBPS = 96;
/** The highest bit rate that MP3 allows below 16 kHz. */
const MP3_LOW_RATE_BITRATE_KBPS = 64;
const MP3_RATES_HZ = [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];
/** Rate of an MP3 file if the sound has another rate. */
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
 * Begins a FLAC file. Its header leaves the length open, since it is not known before the end.
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
