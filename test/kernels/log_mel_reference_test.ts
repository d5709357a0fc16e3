import assert from "node:assert/strict";
import { ReferenceLogMel } from "../../kernels/log_mel/log_mel_reference.ts";
import {
  countSamplesPerRow,
  cutRow,
  type LogMelRow,
  type LogMelSpec,
  makeMelFilters,
  readLogMelSpec,
} from "../../kernels/log_mel/log_mel_spec.ts";
import { foreignSpeechTest, readJfk, readJfkLogMel } from "../fixtures/audio/speech.ts";
import { makeSounds, readFeatures, SMALL } from "./log_mel_case.ts";
import { assertClose, assertSameValues } from "../fixtures/engine/compare_values.ts";

function compute(spec: LogMelSpec, rows: readonly LogMelRow[], maxRecordings = 1): Float32Array {
  const output = new Float32Array(rows.length * spec.mels * spec.frames).fill(NaN);
  new ReferenceLogMel(spec, maxRecordings).compute(rows, output);
  return output;
}

for (const [name, samples] of Object.entries(makeSounds(countSamplesPerRow(SMALL)))) {
  Deno.test(`ReferenceLogMel.compute() equals the definition: ${name}`, () => {
    const row = { samples, recording: 0, contentFrames: SMALL.frames };
    assertClose(compute(SMALL, [row]), readFeatures(SMALL, [row]), { abs: 1e-6, rel: 0 });
  });
}

for (const mels of [80, 128]) {
  foreignSpeechTest(
    `ReferenceLogMel.compute() equals Whisper's features of jfk.wav, ${mels} mels`,
    (folder) => {
      const golden = readJfkLogMel(folder, mels);
      const spec = readLogMelSpec({ feature_size: mels });
      const row = cutRow(spec, readJfk(folder), { paddedSamples: 480_000 });
      const features = compute(spec, [{ samples: row, recording: 0, contentFrames: spec.frames }]);
      assert.deepEqual(golden.dims, [spec.mels, spec.frames]);
      for (const [mel, frame, value] of golden.spots) {
        assert.ok(Math.abs(features[mel * spec.frames + frame]! - value) < 1e-6);
      }
      const mean = features.reduce((sum, value) => sum + value, 0) / features.length;
      assert.ok(Math.abs(mean - golden.mean) < 1e-6);
    },
  );

  foreignSpeechTest(`makeMelFilters() gives Whisper's filterbank, ${mels} mels`, (folder) => {
    const header = 128;
    const bytes = Deno.readFileSync(`${folder}/mel_filters_${mels}.npy`).slice(header);
    const dense = Array.from({ length: mels }, () => new Float32Array(201));
    makeMelFilters(readLogMelSpec({ feature_size: mels })).forEach(({ firstBin, weights }, mel) =>
      dense[mel]!.set(weights, firstBin)
    );
    const flat = dense.flatMap((filter) => [...filter]);
    assertClose(flat, new Float32Array(bytes.buffer), { abs: 1e-8, rel: 0 });
  });
}

Deno.test("ReferenceLogMel.compute() sets the floor of all rows of a recording by its loudest row", () => {
  const sounds = makeSounds(countSamplesPerRow(SMALL));
  const rows = ["a click in silence", "a full-scale tone next to a faint one"].map((name) => ({
    samples: sounds[name]!,
    recording: 0,
    contentFrames: 20,
  }));
  assertClose(compute(SMALL, rows), readFeatures(SMALL, rows), { abs: 1e-6, rel: 0 });
});

Deno.test("ReferenceLogMel.measure() lets later rows of a recording set the floor of earlier ones, until forget()", () => {
  const sounds = makeSounds(countSamplesPerRow(SMALL));
  const rows = ["a click in silence", "noise"].map((name) => ({
    samples: sounds[name]!,
    recording: 0,
    contentFrames: SMALL.frames,
  }));
  const logMel = new ReferenceLogMel(SMALL, 1);
  for (const row of rows) logMel.measure(row);
  const first = new Float32Array(SMALL.mels * SMALL.frames);
  logMel.compute(rows.slice(0, 1), first);
  assertSameValues(first, compute(SMALL, rows).subarray(0, first.length));

  logMel.forget(0);
  logMel.compute(rows.slice(0, 1), first);
  assertSameValues(first, compute(SMALL, rows.slice(0, 1)));
});

Deno.test("ReferenceLogMel.compute() treats missing samples as silence", () => {
  const { noise } = makeSounds(countSamplesPerRow(SMALL));
  for (const length of [0, 1, 159, 160, 161, 1201]) {
    const samples = noise!.slice(0, length);
    const padded = new Float32Array(noise!.length);
    padded.set(samples);
    const rest = { recording: 0, contentFrames: SMALL.frames };
    assertSameValues(
      compute(SMALL, [{ samples, ...rest }]),
      compute(SMALL, [{ samples: padded, ...rest }]),
    );
  }
});

Deno.test("cutRow() reflects a recording at both ends, without repeating the end samples", () => {
  const recording = Float32Array.from({ length: 1000 }, (_, i) => i + 1);
  const row = cutRow(SMALL, recording);
  assert.deepEqual([...row.subarray(0, 3)], [201, 200, 199]);
  assert.deepEqual([...row.subarray(199, 203)], [2, 1, 2, 3]);
  assert.deepEqual([...row.subarray(1198, 1203)], [999, 1000, 999, 998, 997]);
  assert.equal(row.length, 1400);
});

Deno.test("cutRow() leaves out the silence after a recording", () => {
  const recording = new Float32Array(1000).fill(1);
  assert.equal(cutRow(SMALL, recording, { paddedSamples: 5000 }).length, 1200);
  assert.equal(cutRow(SMALL, recording, { firstFrame: 100, paddedSamples: 5000 }).length, 0);
});

Deno.test("cutRow() returns windows that join without a gap", () => {
  const recording = Float32Array.from({ length: 30_000 }, (_, i) => Math.sin(i * i * 1e-6));
  const whole = { ...SMALL, frames: 96 };
  const full = compute(whole, [
    { samples: cutRow(whole, recording), recording: 0, contentFrames: whole.frames },
  ]);
  const rows = [0, 24, 48, 72].map((firstFrame) => ({
    samples: cutRow(SMALL, recording, { firstFrame }),
    recording: 0,
    contentFrames: SMALL.frames,
  }));
  const joined = compute(SMALL, rows);
  for (let mel = 0; mel < SMALL.mels; mel++) {
    for (let frame = 0; frame < whole.frames; frame++) {
      const row = Math.floor(frame / SMALL.frames);
      const at = (row * SMALL.mels + mel) * SMALL.frames + frame % SMALL.frames;
      assert.equal(joined[at], full[mel * whole.frames + frame]);
    }
  }
});

Deno.test("readLogMelSpec() uses Whisper's values for absent fields", () => {
  const whisper = {
    mels: 80,
    fftSamples: 400,
    hopSamples: 160,
    sampleRateHz: 16_000,
    frames: 3000,
  };
  assert.deepEqual(readLogMelSpec({}), whisper);
  assert.deepEqual(readLogMelSpec({ feature_size: 128, n_samples: 160_000 }), {
    ...whisper,
    mels: 128,
    frames: 1000,
  });
});

Deno.test("readLogMelSpec() names a value that is not a positive integer", () => {
  assert.throws(
    () => readLogMelSpec({ hop_length: "160" }),
    { name: "RangeError", message: /hop_length is "160"/ },
  );
});
