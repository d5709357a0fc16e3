/**
 * Writes FLAC, with libFLAC.
 *
 * @module
 */
import { joinBytes } from "../../base/join_bytes.ts";
import { type SoundWriter, toInt16 } from "../sound_format.ts";

const BITS_PER_SAMPLE = 16;
const COMPRESSION_LEVEL = 5;

/** The used part of the library; its own types describe another factory, which reads files. */
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
 * Begins a file, whose header leaves its length open: it is not known before the end.
 *
 * @throws {Error} when the encoder does not support the sample rate.
 */
export async function createFlacWriter(sampleRateHz: number): Promise<SoundWriter> {
  const flac = await (library ??= loadLibrary());
  let ready: Uint8Array[] = [];
  const encoder = flac.create_libflac_encoder(
    sampleRateHz,
    1,
    BITS_PER_SAMPLE,
    COMPRESSION_LEVEL,
    0,
  );
  // Copied: the next call overwrites the library's memory.
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
