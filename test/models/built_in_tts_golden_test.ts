/** The built-in speech model in every dtype on both backends: phonemes, samples and spectra equal its goldens. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import { Fft } from "../../src/media/fft.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { openSynthesizer } from "../fixtures/engine/open_folder.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";

const FOLDER = findModelFolder("hearth-demo-tts")!;

interface Golden {
  readonly text: string;
  readonly voice: string;
  readonly speed: number;
  readonly input_ids: readonly number[];
  readonly samples: number;
  readonly rms: number;
  readonly band_levels_db: readonly number[];
  /** Samples from 2400 on. */
  readonly first: readonly number[];
  /** Samples from the middle on. */
  readonly middle: readonly number[];
}

interface GoldenFile {
  readonly band_edges_hz: readonly number[];
  readonly sample_rate: number;
  readonly cases: readonly Golden[];
}

/** Tolerances of speech. */
interface Closeness {
  /** Tolerance of each golden sample; not checked if the phase of a voice may differ. */
  readonly sample?: number;
  /** Frames by which the length may differ. */
  readonly frames: number;
  readonly rmsDb: number;
  /** Tolerance of each band of the spectrum. */
  readonly bandDb: number;
}

const CLOSENESS: Readonly<Partial<Record<Dtype, Closeness>>> = {
  fp32: { sample: 1e-3, frames: 0, rmsDb: 0.01, bandDb: 0.1 },
  fp16: { frames: 1, rmsDb: 0.15, bandDb: 2.5 },
  q8: { frames: 1, rmsDb: 0.15, bandDb: 2 },
};
const FRAME_SAMPLES = 240;

const { band_edges_hz: EDGES, sample_rate: RATE, cases }: GoldenFile = JSON.parse(
  await Deno.readTextFile(`${FOLDER}/golden.json`),
);

/** The mean power of the sound between adjacent edges, in dB. */
function bandLevels(samples: Float32Array): number[] {
  const fft = new Fft(2 ** Math.ceil(Math.log2(samples.length)));
  fft.input.im.fill(0);
  fft.input.re.fill(0);
  fft.input.re.set(samples);
  fft.transform();
  const { re, im } = fft.output;
  return EDGES.slice(1).map((edge, band) => {
    const [from, to] = [EDGES[band]!, edge].map((hz) => Math.ceil(hz * fft.size / RATE));
    let power = 0;
    for (let bin = from!; bin < to!; bin++) power += re[bin]! ** 2 + im[bin]! ** 2;
    return 10 * Math.log10(2 * power / (samples.length * fft.size));
  });
}

function computeRms(samples: Float32Array): number {
  return Math.sqrt(samples.reduce((sum, sample) => sum + sample ** 2, 0) / samples.length);
}

function assertClose(golden: Golden, samples: Float32Array, closeness: Closeness): void {
  const { text, first, middle } = golden;
  const { sample: tolerance, frames, rmsDb, bandDb } = closeness;
  const surplus = samples.length - golden.samples;
  assert.ok(Math.abs(surplus) <= frames * FRAME_SAMPLES, `${text}: ${surplus} samples too many`);
  const rms = 20 * Math.log10(computeRms(samples) / golden.rms);
  assert.ok(Math.abs(rms) <= rmsDb, `${text}: ${rms} dB too loud`);
  bandLevels(samples).forEach((level, band) => {
    const wanted = golden.band_levels_db[band]!;
    assert.ok(Math.abs(level - wanted) <= bandDb, `${text}, band ${band}: ${level}, not ${wanted}`);
  });
  if (tolerance === undefined) return;
  const parts = [[2400, first], [Math.floor(golden.samples / 2), middle]] as const;
  for (const [from, values] of parts) {
    values.forEach((value, i) => {
      const error = Math.abs(samples[from + i]! - value);
      assert.ok(error <= tolerance, `${text}, sample ${from + i}: off by ${error}`);
    });
  }
}

interface SpeechOptions {
  readonly dtype: Dtype;
  readonly goldens?: readonly Golden[];
  /** Whether a golden is spoken twice, with the same result; all are if absent. */
  readonly repeats?: (golden: Golden) => boolean;
}

async function assertSpeech(
  backend: Backend,
  { dtype, goldens = cases, repeats = () => true }: SpeechOptions,
): Promise<void> {
  const { synthesizer } = await openSynthesizer(await openFolder(FOLDER), {
    backend,
    dtype,
    onProgress: () => {},
  });
  try {
    for (const golden of goldens) {
      const { text, speed, input_ids } = golden;
      const voice = synthesizer.voices.find(({ id }) => id === golden.voice)!;
      const tokens = await synthesizer.tokenize(text, voice);
      assert.deepEqual([...tokens], input_ids, text);
      const { signal } = new AbortController();
      const speak = () => synthesizer.synthesize(tokens, { voice, speed, noiseOffset: 0, signal });
      const samples = await speak();
      assertClose(golden, samples, CLOSENESS[dtype]!);
      if (!repeats(golden)) continue;
      const again = await speak();
      assert.ok(
        samples.length === again.length && samples.every((sample, i) => sample === again[i]),
        `${text}: a second run sounds different`,
      );
    }
  } finally {
    await synthesizer.dispose();
  }
}

/**
 * Goldens for WebGPU, where a software adapter needs half a second per second of speech. Each dtype gets a third of the
 * texts and voices.
 */
const ON_GPU = {
  fp32: cases.filter((_, i) => i % 3 === 0),
  fp16: cases.filter((_, i) => i % 3 === 1),
  q8: cases.filter((_, i) => i % 3 === 2),
} as const;

for (const dtype of ["fp32", "fp16", "q8"] as const) {
  cpuTest(
    `hearth-demo-tts ${dtype} equals its goldens on the CPU`,
    (backend) => assertSpeech(backend, { dtype }),
  );

  const goldens = ON_GPU[dtype];
  const shortest = goldens.toSorted((a, b) => a.samples - b.samples)[0];
  gpuTest(`hearth-demo-tts ${dtype} equals its goldens on WebGPU`, async (gpu) => {
    const repeats = (golden: Golden) => golden === shortest;
    await assertSpeech(await WebGpuBackend.create(gpu), { dtype, goldens, repeats });
  });
}
