import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { AudioResampler, stretchTime } from "../../../src/media/sound_rate.ts";

/** Samples at each end that the surrounding silence affects. */
const EDGE = 1000;

const RATES = [
  [8_000, 16_000],
  [11_025, 16_000],
  [22_050, 16_000],
  [44_100, 16_000],
  [48_000, 16_000],
  [96_000, 16_000],
  [16_000, 24_000],
] as const;

function resample(
  input: Float32Array,
  [from, to]: readonly [number, number],
  piece = 4096,
): Float32Array {
  const resampler = new AudioResampler(from, to);
  const pieces: Float32Array[] = [];
  for (let i = 0; i < input.length; i += piece) {
    pieces.push(resampler.push(input.subarray(i, i + piece)));
  }
  pieces.push(resampler.flush());
  return Float32Array.from(pieces.flatMap((samples) => [...samples]));
}

/** Linear interpolation, which most programs use without a filter. */
function interpolate(input: Float32Array, [from, to]: readonly [number, number]): Float32Array {
  return Float32Array.from({ length: Math.ceil(input.length * to / from) }, (_, n) => {
    const at = n * from / to;
    const before = input[Math.floor(at)] ?? 0;
    return before + (at % 1) * ((input[Math.floor(at) + 1] ?? 0) - before);
  });
}

function makeTone(hz: number, rateHz: number, length = rateHz / 2): Float32Array {
  return Float32Array.from({ length }, (_, i) => Math.sin(2 * Math.PI * hz * i / rateHz + 0.3));
}

function decibels(ratio: number): number {
  return 10 * Math.log10(ratio);
}

function power(samples: ArrayLike<number>): number {
  let sum = 0;
  for (let i = EDGE; i < samples.length - EDGE; i++) sum += samples[i]! ** 2;
  return sum / (samples.length - 2 * EDGE);
}

/** The level of everything except the tone, relative to the tone. */
function errorDecibels(output: Float32Array, hz: number, rateHz: number): number {
  const wanted = makeTone(hz, rateHz, output.length);
  return decibels(power(output.map((sample, i) => sample - wanted[i]!)) / power(wanted));
}

for (const rates of RATES) {
  const [from, to] = rates;
  const nyquist = Math.min(from, to) / 2;

  Deno.test(`AudioResampler passes tones unchanged up to 0.9 of the band, ${from} to ${to} Hz`, () => {
    for (const share of [0.01, 0.1, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9]) {
      const hz = share * nyquist;
      const error = errorDecibels(resample(makeTone(hz, from), rates), hz, to);
      assert.ok(error < -85, `${hz} Hz comes out with an error of ${error.toFixed(1)} dB`);
    }
  });

  if (from > to) {
    Deno.test(`AudioResampler removes frequencies that would alias, ${from} to ${to} Hz`, () => {
      for (let hz = nyquist; hz < from / 2; hz += (from / 2 - nyquist) / 23) {
        const rest = decibels(power(resample(makeTone(hz, from), rates)) / 0.5);
        assert.ok(rest < -90, `${hz} Hz is left at ${rest.toFixed(1)} dB`);
      }
    });
  }

  Deno.test(`AudioResampler is 60 dB better than linear interpolation, ${from} to ${to} Hz`, () => {
    const hz = 0.6 * nyquist;
    const tone = makeTone(hz, from);
    const gain = errorDecibels(interpolate(tone, rates), hz, to) -
      errorDecibels(resample(tone, rates), hz, to);
    // At an integer ratio interpolation copies samples; its error is the aliasing.
    if (from % to === 0) {
      const high = makeTone(1.3 * nyquist, from);
      const folded = decibels(power(interpolate(high, rates)) / power(resample(high, rates)));
      assert.ok(folded > 60, `${folded.toFixed(1)} dB`);
    } else {
      assert.ok(gain > 60, `${gain.toFixed(1)} dB`);
    }
  });

  Deno.test(`AudioResampler returns the same samples for any chunks, ${from} to ${to} Hz`, () => {
    const input = makeTone(1000, from, 5000).map((sample, i) => sample * Math.sin(i * i));
    const whole = resample(input, rates, input.length);
    assert.equal(whole.length, Math.ceil(input.length * to / from));
    for (const piece of [1, 7, 441, 4999]) assertSameValues(resample(input, rates, piece), whole);
  });
}

Deno.test("AudioResampler keeps a constant and its duration at odd rates", () => {
  for (const rate of [44_056, 15_999, 47_999, 7_350, 1_000, 768_000]) {
    const output = resample(new Float32Array(rate).fill(0.5), [rate, 16_000]);
    assert.equal(output.length, 16_000);
    const middle = output.subarray(EDGE, -EDGE);
    assert.ok(middle.every((sample) => Math.abs(sample - 0.5) < 1e-5), `${rate} Hz`);
  }
});

Deno.test("AudioResampler keeps the position of a click", () => {
  for (const rate of [8_000, 44_100, 48_000]) {
    const input = new Float32Array(rate);
    input[rate / 4] = 1;
    const output = resample(input, [rate, 16_000]);
    assert.equal(output.indexOf(Math.max(...output)), 4000);
  }
});

Deno.test("AudioResampler returns nothing for no input", () => {
  assert.equal(resample(new Float32Array(), [44_100, 16_000]).length, 0);
  assert.equal(resample(new Float32Array(1), [44_100, 16_000]).length, 1);
});

const RATE_HZ = 16_000;

function tone(hz: number, seconds: number): Float32Array<ArrayBuffer> {
  return Float32Array.from(
    { length: seconds * RATE_HZ },
    (_, i) => 0.5 * Math.sin(2 * Math.PI * hz * i / RATE_HZ),
  );
}

/** The frequency of the strongest tone between 120 and 220 Hz, to one hertz. */
function computePitch(samples: Float32Array): number {
  let [best, most] = [0, 0];
  for (let hz = 120; hz <= 220; hz++) {
    let [re, im] = [0, 0];
    samples.forEach((sample, i) => {
      re += sample * Math.cos(2 * Math.PI * hz * i / RATE_HZ);
      im += sample * Math.sin(2 * Math.PI * hz * i / RATE_HZ);
    });
    if (re * re + im * im > most) [best, most] = [hz, re * re + im * im];
  }
  return best;
}

for (const speed of [0.25, 0.5, 0.8, 1.3, 2, 4]) {
  Deno.test(`stretchTime() by ${speed} changes the length and not the pitch`, () => {
    const samples = tone(170, 1);
    const stretched = stretchTime(samples, { speed, sampleRateHz: RATE_HZ });
    assert.equal(stretched.length, Math.round(RATE_HZ / speed));
    const inside = stretched.subarray(400, -900);
    assert.ok(Math.abs(computePitch(inside.subarray(0, RATE_HZ)) - 170) <= 2);
    // No gaps or peaks between frames.
    for (let at = 0; at + 200 < inside.length; at += 200) {
      const loudest = inside.subarray(at, at + 200).reduce((a, b) => Math.max(a, Math.abs(b)), 0);
      assert.ok(loudest > 0.4 && loudest < 0.6, `${loudest} at ${at}`);
    }
  });
}

Deno.test("stretchTime() does not change sound at speed 1, or sound that is too short to divide", () => {
  const samples = tone(100, 0.01);
  assert.equal(stretchTime(samples, { speed: 2, sampleRateHz: RATE_HZ }), samples);
  const long = tone(100, 1);
  assert.equal(stretchTime(long, { speed: 1, sampleRateHz: RATE_HZ }), long);
});
