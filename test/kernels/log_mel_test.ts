import assert from "node:assert/strict";
import { LogMel, type LogMelOptions } from "../../kernels/log_mel/log_mel.ts";
import { ReferenceLogMel } from "../../kernels/log_mel/log_mel_reference.ts";
import {
  countSamplesPerRow,
  cutRow,
  type LogMelRow,
  readLogMelSpec,
} from "../../kernels/log_mel/log_mel_spec.ts";
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { elemBytes } from "../../src/gpu/kernel.ts";
import { unlessThere } from "../fixtures/engine/goldens.ts";
import { kernelTest } from "../fixtures/engine/gpu.ts";
import { findForeignSpeech, readJfk, readJfkLogMel } from "../fixtures/audio/speech.ts";
import { makeSounds, SMALL } from "./log_mel_case.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { runAndRead } from "./tensors.ts";

const FLOAT32 = { abs: 1e-4, rel: 0 };
/** Half a unit in the last place of a float16 between 1 and 2, plus the tolerance of f32. */
const FLOAT16 = { abs: 1e-4 + 2 ** -11, rel: 0 };

function gpuSpeechTest(
  name: string,
  fn: (gpu: GpuContext, folder: string) => Promise<void>,
): void {
  const folder = findForeignSpeech();
  const note = unlessThere(folder !== undefined, "testdata/asr", "recordings of people");
  if (folder === undefined) Deno.test.ignore(`${name}${note}`, () => {});
  else kernelTest(name, (gpu) => fn(gpu, folder));
}

class Features {
  readonly logMel: LogMel;
  readonly #gpu: GpuContext;
  readonly #options: LogMelOptions;
  readonly #output: GPUBuffer;

  constructor(gpu: GpuContext, options: Partial<LogMelOptions> = {}) {
    this.#gpu = gpu;
    this.#options = { spec: SMALL, elem: "f32", maxRows: 3, maxRecordings: 3, ...options };
    this.logMel = new LogMel(gpu, this.#options);
    const { spec, elem, maxRows } = this.#options;
    this.#output = createBuffer(gpu, {
      size: maxRows * spec.mels * spec.frames * elemBytes(elem),
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
    });
  }

  compute(rows: readonly LogMelRow[]): Promise<Float32Array> {
    const { spec, elem } = this.#options;
    return runAndRead(this.#gpu, (pass) => this.logMel.encode(pass, rows, this.#output), {
      buffer: this.#output,
      length: rows.length * spec.mels * spec.frames,
      elem,
    });
  }

  measure(rows: readonly LogMelRow[]): void {
    this.#submit((pass) => this.logMel.encodeMeasure(pass, rows));
  }

  submit(rows: readonly LogMelRow[]): void {
    this.#submit((pass) => this.logMel.encode(pass, rows, this.#output));
  }

  #submit(encode: (pass: GPUComputePassEncoder) => void): void {
    const encoder = this.#gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    encode(pass);
    pass.end();
    this.#gpu.device.queue.submit([encoder.finish()]);
  }

  [Symbol.dispose](): void {
    this.logMel.dispose();
    this.#output.destroy();
  }
}

function reference(rows: readonly LogMelRow[], spec = SMALL): Float32Array {
  const output = new Float32Array(rows.length * spec.mels * spec.frames);
  new ReferenceLogMel(spec, 3).compute(rows, output);
  return output;
}

const SOUNDS = makeSounds(countSamplesPerRow(SMALL));

function makeRow(name: string, options: Partial<LogMelRow> = {}): LogMelRow {
  return { samples: SOUNDS[name]!, recording: 0, contentFrames: SMALL.frames, ...options };
}

for (const name of Object.keys(SOUNDS)) {
  kernelTest(`LogMel.encode() gives the reference's features: ${name}`, async (gpu) => {
    using features = new Features(gpu);
    const rows = [makeRow(name)];
    assertClose(await features.compute(rows), reference(rows), FLOAT32);
  });
}

for (const mels of [80, 128]) {
  for (const elem of ["f32", "f16"] as const) {
    gpuSpeechTest(
      `LogMel.encode() equals Whisper's features of jfk.wav, ${mels} mels, ${elem}`,
      async (gpu, folder) => {
        const spec = readLogMelSpec({ feature_size: mels });
        using features = new Features(gpu, { spec, elem, maxRows: 1 });
        const samples = cutRow(spec, readJfk(folder), { paddedSamples: 480_000 });
        const rows = [{ samples, recording: 0, contentFrames: spec.frames }];
        const values = await features.compute(rows);
        const tolerance = elem === "f32" ? FLOAT32 : FLOAT16;
        for (const [mel, frame, value] of readJfkLogMel(folder, mels).spots) {
          assert.ok(Math.abs(values[mel * spec.frames + frame]! - value) < tolerance.abs);
        }
        assertClose(values, reference(rows, spec), tolerance);
      },
    );
  }
}

kernelTest(
  "LogMel.encode() gives rows of different recordings the same values as each alone",
  async (gpu) => {
    using features = new Features(gpu);
    const rows = ["a click in silence", "noise", "silence"].map((name, recording) =>
      makeRow(name, { recording })
    );
    const together = await features.compute(rows);
    const alone = rows.flatMap((row) => [...reference([row])]);
    assertClose(together, alone, FLOAT32);
  },
);

kernelTest(
  "LogMel.encode() sets the floor of all rows of a recording by its loudest row",
  async (gpu) => {
    using features = new Features(gpu);
    const rows = [
      makeRow("a click in silence"),
      makeRow("a constant"),
      makeRow("noise", { recording: 1 }),
    ];
    assertClose(await features.compute(rows), reference(rows), FLOAT32);
  },
);

kernelTest(
  "LogMel.encodeMeasure() lets later rows of a recording set the floor of earlier ones, until forget()",
  async (gpu) => {
    using features = new Features(gpu);
    const rows = [makeRow("a click in silence"), makeRow("noise")];
    features.measure(rows);
    const first = await features.compute(rows.slice(0, 1));
    assertClose(first, reference(rows).subarray(0, first.length), FLOAT32);

    features.logMel.forget(0);
    assertClose(await features.compute(rows.slice(0, 1)), reference(rows.slice(0, 1)), FLOAT32);
  },
);

kernelTest(
  "LogMel.encode() of a short row is not affected by a longer row before it",
  async (gpu) => {
    using features = new Features(gpu);
    const full = countSamplesPerRow(SMALL);
    await features.compute([makeRow("noise"), makeRow("noise"), makeRow("noise")]);
    features.logMel.forget(0);
    for (const length of [full, full - 1, 1280, 1281, 161, 160, 1, 0]) {
      const samples = SOUNDS["a chirp to half the sample rate"]!.slice(0, length);
      const rows = [
        makeRow("", { samples }),
        makeRow("", { samples: samples.subarray(length >> 1) }),
      ];
      assertClose(await features.compute(rows), reference(rows), FLOAT32);
      features.logMel.forget(0);
    }
  },
);

kernelTest("LogMel.encode() sets frames after a recording's end to 0", async (gpu) => {
  using features = new Features(gpu);
  const rows = [
    makeRow("noise", { contentFrames: 0 }),
    makeRow("noise", { contentFrames: 7 }),
    makeRow("noise", { contentFrames: 8, samples: SOUNDS["noise"]!.subarray(0, 500) }),
  ];
  const values = await features.compute(rows);
  assertClose(values, reference(rows), FLOAT32);
  assert.ok(values.subarray(0, SMALL.mels * SMALL.frames).every((value) => value === 0));
});

kernelTest("LogMel.encode() creates no device objects after its first run", (gpu) => {
  using features = new Features(gpu);
  const rows = [makeRow("noise"), makeRow("silence")];
  features.submit(rows);
  const before = { ...gpu.counts };
  for (let i = 0; i < 5; i++) features.submit(rows.slice(i % 2));
  assert.deepEqual(gpu.counts, before);
});

kernelTest("LogMel.encode() refuses too many rows and rows that are too long", (gpu) => {
  using features = new Features(gpu, { maxRows: 1 });
  assert.throws(() => features.submit([makeRow("noise"), makeRow("noise")]), /2 rows/);
  const samples = new Float32Array(countSamplesPerRow(SMALL) + 1);
  assert.throws(() => features.submit([makeRow("", { samples })]), /has 4081 samples; 4080 fit/);
});

kernelTest("LogMel refuses unsupported window sizes and numbers of frames", (gpu) => {
  const options = { elem: "f32", maxRows: 1, maxRecordings: 1 } as const;
  assert.throws(
    () => new LogMel(gpu, { spec: { ...SMALL, fftSamples: 512 }, ...options }),
    /512 samples was asked for/,
  );
  assert.throws(
    () => new LogMel(gpu, { spec: { ...SMALL, frames: 3001 }, ...options }),
    /3001 frames were asked for/,
  );
});
