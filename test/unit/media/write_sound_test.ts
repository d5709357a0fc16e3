import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { decodeAudio } from "../../../src/media/audio.ts";
import { joinBytes } from "../../../src/base/bytes.ts";
import {
  closeWavHeader,
  limitPeaks,
  SOUND_FORMATS,
  type SoundFormat,
} from "../../../src/media/sound_format.ts";
import { createSoundWriter } from "../../../src/media/write_sound.ts";

const RATES_HZ = [8_000, 16_000, 22_050, 24_000, 44_100];

/** A voice-like sound: a gliding tone with overtones and varying loudness. */
function sing(seconds: number, rateHz: number): Float32Array {
  return Float32Array.from({ length: Math.round(seconds * rateHz) }, (_, i) => {
    const t = i / rateHz;
    const phase = 2 * Math.PI * (180 * t + 20 * Math.sin(3 * t));
    const loudness = 0.3 + 0.2 * Math.sin(7 * t);
    return loudness * (Math.sin(phase) + 0.4 * Math.sin(2 * phase) + 0.2 * Math.sin(3 * phase));
  });
}

async function encode(
  format: SoundFormat,
  options: { sound: Float32Array; rateHz: number; pieces?: number },
): Promise<Uint8Array<ArrayBuffer>> {
  const { sound, rateHz, pieces = 1 } = options;
  const writer = await createSoundWriter(format, rateHz);
  const parts: Uint8Array[] = [];
  const step = Math.ceil(sound.length / pieces);
  for (let at = 0; at < sound.length; at += step) {
    parts.push(writer.write(sound.subarray(at, at + step)));
  }
  parts.push(writer.finish());
  writer.dispose();
  return joinBytes(parts);
}

async function decode(file: Uint8Array<ArrayBuffer>, sampleRateHz: number): Promise<Float32Array> {
  const parts: number[] = [];
  for await (const piece of decodeAudio(file, { sampleRateHz })) {
    for (const sample of piece) parts.push(sample);
  }
  return Float32Array.from(parts);
}

/** The ratio of a sound to the difference from it, in dB. */
function signalToNoise(sound: Float32Array, heard: Float32Array): number {
  let [signal, noise] = [0, 0];
  for (let i = 0; i < sound.length; i++) {
    signal += sound[i]! ** 2;
    noise += (sound[i]! - (heard[i] ?? 0)) ** 2;
  }
  return 10 * Math.log10(signal / noise);
}

/** The best shift of at most `range` samples. */
function alignment(sound: Float32Array, heard: Float32Array, range: number): number {
  let [best, most] = [0, -Infinity];
  for (let shift = -range; shift <= range; shift++) {
    let sum = 0;
    for (let i = range; i < sound.length - range; i += 3) {
      sum += sound[i]! * (heard[i + shift] ?? 0);
    }
    if (sum > most) [best, most] = [shift, sum];
  }
  return best;
}

for (const rateHz of RATES_HZ) {
  for (const format of ["wav", "flac"] as const) {
    Deno.test(`createSoundWriter() writes ${format} at ${rateHz} Hz without loss`, async () => {
      const sound = sing(0.7, rateHz);
      const file = await encode(format, { sound, rateHz, pieces: 5 });
      const heard = await decode(file, rateHz);
      assert.equal(heard.length, sound.length);
      sound.forEach((sample, i) => assert.ok(Math.abs(sample - heard[i]!) < 1.6 / 32_768));
    });
  }

  for (const format of ["mp3", "opus"] as const) {
    Deno.test(`createSoundWriter() writes ${format} at ${rateHz} Hz close to the sound`, async () => {
      const sound = sing(1, rateHz);
      const file = await encode(format, { sound, rateHz, pieces: 4 });
      const heard = await decode(file, rateHz);
      const range = format === "opus" ? 2 : Math.round(rateHz * 0.2);
      const shift = alignment(sound, heard, range);
      const moved = heard.subarray(Math.max(0, shift));
      assert.ok(signalToNoise(sound.subarray(0, moved.length), moved) > 15);
      if (format === "opus") assert.ok(Math.abs(heard.length - sound.length) <= 2);
    });
  }
}

Deno.test("createSoundWriter() writes pcm at 24 kHz, also for a model of 16 kHz", async () => {
  const bytes = await encode("pcm", { sound: sing(0.5, 16_000), rateHz: 16_000, pieces: 3 });
  const samples = new Int16Array(bytes.buffer);
  assert.equal(samples.length, 12_000);
  const wanted = sing(0.5, 24_000);
  const heard = Float32Array.from(samples, (sample) => sample / 32_767);
  assert.ok(signalToNoise(wanted.subarray(100, -100), heard.subarray(100, -100)) > 40);
});

for (const format of SOUND_FORMATS) {
  Deno.test(`createSoundWriter() writes the same ${format} for any division of the sound`, async () => {
    const sound = sing(0.3, 24_000);
    const whole = await encode(format, { sound, rateHz: 24_000 });
    assertSameValues(await encode(format, { sound, rateHz: 24_000, pieces: 7 }), whole);
  });

  Deno.test(`createSoundWriter() clips samples that are too loud in ${format}, and does not wrap them`, async () => {
    const sound = sing(0.2, 24_000).map((sample) => 9 * sample);
    const heard = format === "pcm"
      ? Float32Array.from(
        new Int16Array((await encode(format, { sound, rateHz: 24_000 })).buffer),
        (sample) => sample / 32_767,
      )
      : await decode(await encode(format, { sound, rateHz: 24_000 }), 24_000);
    const clipped = sound.map((sample) => Math.max(-1, Math.min(1, sample)));
    const shift = alignment(clipped, heard, format === "mp3" ? 1_500 : 2);
    const moved = heard.subarray(Math.max(0, shift));
    assert.ok(signalToNoise(clipped.subarray(0, moved.length), moved) > 12);
  });
}

Deno.test("WavWriter leaves the length open, closeWavHeader() inserts it", async () => {
  const file = await encode("wav", { sound: sing(0.1, 16_000), rateHz: 16_000 });
  const view = new DataView(file.buffer);
  assert.equal(view.getUint32(4, true), 0xffff_ffff);
  assert.equal(view.getUint32(40, true), 0xffff_ffff);
  assert.equal(view.getUint32(24, true), 16_000);
  closeWavHeader(file);
  assert.equal(view.getUint32(4, true), file.length - 8);
  assert.equal(view.getUint32(40, true), 3_200);
});

Deno.test("createSoundWriter() can abandon files before their end, repeatedly", async () => {
  for (const format of SOUND_FORMATS) {
    for (let i = 0; i < 50; i++) {
      const writer = await createSoundWriter(format, 24_000);
      writer.write(new Float32Array(480));
      writer.dispose();
    }
  }
});

Deno.test("createSoundWriter() writes the same file after an abandoned one", async () => {
  const options = { sound: sing(0.2, 24_000), rateHz: 24_000 };
  for (const format of SOUND_FORMATS) {
    const first = await encode(format, options);
    const left = await createSoundWriter(format, 44_100);
    left.write(sing(0.1, 44_100));
    left.dispose();
    assertSameValues(await encode(format, options), first);
  }
});

Deno.test("limitPeaks() attenuates sound that is too loud as a whole, and leaves other sound unchanged", () => {
  const loud = Float32Array.of(0.5, -2, 1);
  limitPeaks(loud);
  assert.deepEqual(loud, Float32Array.of(0.2375, -0.95, 0.475));
  const soft = Float32Array.of(0.5, -1);
  limitPeaks(soft);
  assert.deepEqual(soft, Float32Array.of(0.5, -1));
});

Deno.test("limitPeaks() refuses samples that are not finite", () => {
  assert.throws(() => limitPeaks(Float32Array.of(0, NaN, 0.5)), RangeError);
  assert.throws(() => limitPeaks(Float32Array.of(0, Infinity)), RangeError);
});
