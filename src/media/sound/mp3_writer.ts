/**
 * Writes MP3, with LAME.
 *
 * @module
 */
import { joinBytes } from "../../base/join_bytes.ts";
import { AudioResampler } from "../resample_audio.ts";
import { clip, type SoundWriter } from "../sound_format.ts";

/** Transparent for one voice. */
const BITRATE_KBPS = 96;
/** The highest bit rate below 16 kHz. */
const LOW_RATE_BITRATE_KBPS = 64;
const RATES_HZ = [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];
const OTHER_RATE_HZ = 24_000;

type Encoder = Awaited<ReturnType<typeof import("wasm-media-encoders").createMp3Encoder>>;

/** Each is a WebAssembly instance of its own, which takes longer to make than a sentence to encode. */
const idle: Encoder[] = [];

/** Begins a file. An unsupported sample rate is converted to a supported one. */
export async function createMp3Writer(sampleRateHz: number): Promise<SoundWriter> {
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
  // Copied: the next call overwrites the encoder's memory.
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
