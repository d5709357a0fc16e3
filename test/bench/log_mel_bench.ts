/**
 * Compares Whisper's features of 30 s of sound, from samples to features: Hearth's on the CPU and on WebGPU, and
 * transformers.js's feature extractor, alternating.
 *
 *     deno run -A test/bench/log_mel_bench.ts [rounds]
 *
 * @module
 */
import { LogMel } from "../../kernels/log_mel/log_mel.ts";
import { ReferenceLogMel } from "../../kernels/log_mel/log_mel_reference.ts";
import { cutRow, readLogMelSpec } from "../../kernels/log_mel/log_mel_spec.ts";
import { createBuffer, openDevice } from "../../src/gpu/device.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { loadTransformers } from "../../src/device/ort/hook.ts";
import { median } from "./report.ts";

const DEFAULT_ROUNDS = 25;

type Extract = () => Promise<void> | void;

/** Thirty seconds without a silent frame, which could be skipped. */
const recording = Float32Array.from({ length: 480_000 }, (_, i) => 0.5 * Math.sin(i * i * 1e-6));

async function makeTheirs(mels: number): Promise<Extract> {
  const { WhisperFeatureExtractor } = await loadTransformers({ modelsFolder: "." });
  const extractor = new WhisperFeatureExtractor({
    feature_size: mels,
    n_fft: 400,
    hop_length: 160,
    sampling_rate: 16_000,
    n_samples: 480_000,
    nb_max_frames: 3000,
  });
  return async () => {
    await extractor(recording);
  };
}

function makeCpu(mels: number): Extract {
  const spec = readLogMelSpec({ feature_size: mels });
  const logMel = new ReferenceLogMel(spec, 1);
  const output = new Float32Array(spec.mels * spec.frames);
  return () => {
    const samples = cutRow(spec, recording);
    logMel.compute([{ samples, recording: 0, contentFrames: spec.frames }], output);
  };
}

async function makeWebGpu(mels: number): Promise<{ name: string; extract: Extract } | undefined> {
  const gpu = await openDevice({ allowFallback: true });
  if (gpu === undefined) return undefined;
  const spec = readLogMelSpec({ feature_size: mels });
  const logMel = new LogMel(gpu, { spec, elem: "f32", maxRows: 1, maxRecordings: 1 });
  const output = createBuffer(gpu, {
    size: 4 * spec.mels * spec.frames,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
  });
  const readback = await Readback.create(gpu, { maxBytes: 4 });
  const extract = async () => {
    const samples = cutRow(spec, recording);
    const encoder = gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    logMel.encode(pass, [{ samples, recording: 0, contentFrames: spec.frames }], output);
    pass.end();
    // The features stay on the device; reading one of them waits until they are complete.
    await readback.read(encoder, [{ buffer: output, offset: 0, size: 4 }]);
  };
  return { name: gpu.adapterInfo.description || gpu.adapterInfo.device, extract };
}

if (import.meta.main) {
  const rounds = Number(Deno.args[0] ?? DEFAULT_ROUNDS);
  const lines = [
    `| features of 30 s, median of ${rounds} | ms | times as fast |`,
    "| --- | --- | --- |",
  ];
  for (const mels of [80, 128]) {
    const gpu = await makeWebGpu(mels);
    const contestants: [string, Extract][] = [
      [`transformers.js, ${mels} mels`, await makeTheirs(mels)],
      [`log_mel on the CPU, ${mels} mels`, makeCpu(mels)],
    ];
    if (gpu !== undefined) {
      contestants.push([`log_mel on WebGPU (${gpu.name}), ${mels} mels`, gpu.extract]);
    }
    const times = contestants.map((): number[] => []);
    for (let round = -5; round < rounds; round++) {
      for (const [index, [, extract]] of contestants.entries()) {
        const began = performance.now();
        await extract();
        if (round >= 0) times[index]!.push(performance.now() - began);
      }
    }
    const theirs = median(times[0]!);
    contestants.forEach(([name], index) => {
      const ours = median(times[index]!);
      lines.push(`| ${name} | ${ours.toFixed(1)} | ${(theirs / ours).toFixed(1)} |`);
    });
  }
  // deno-lint-ignore no-console -- its purpose
  console.log(lines.join("\n"));
  Deno.exit(0);
}
