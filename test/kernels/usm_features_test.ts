/**
 * Features for the audio encoders of Gemma 3n and 4, compared with those that numpy computes by the published formulas.
 */
import assert from "node:assert/strict";
import { countUsmFrames, readUsmSpec, UsmFeatures } from "../../kernels/log_mel/usm_features.ts";
import { decodeWhole, readFixture } from "../fixtures/audio/audio_files.ts";
import wanted from "../fixtures/audio/usm_features.json" with { type: "json" };

const NO_YIELD = { yieldEvery: Infinity, yieldToOthers: () => Promise.resolve() };

for (const { name, samples, frames, heard, step, values } of wanted) {
  Deno.test(`UsmFeatures.compute() equals numpy's features of ${samples} samples, ${name}`, async () => {
    const spec = readUsmSpec({}, { isSemicausal: name === "gemma4" });
    const sound = (await decodeWhole(readFixture("speech.wav"))).subarray(0, samples);
    const { features, mask } = await new UsmFeatures(spec).compute(sound, NO_YIELD);
    assert.equal(mask.length, frames);
    assert.equal(mask.reduce((sum, each) => sum + each, 0), heard);
    assert.ok(frames - countUsmFrames(spec, samples) <= 1);
    assert.equal(Math.ceil(features.length / step), values.length);
    values.forEach((value, i) =>
      assert.ok(
        Math.abs(features[i * step]! - value) < 1e-4,
        `value ${i}: ${features[i * step]}, wanted ${value}`,
      )
    );
  });
}

Deno.test("UsmFeatures.compute() yields, and gives concurrent sounds the same features as each alone", async () => {
  const features = new UsmFeatures(readUsmSpec({}, { isSemicausal: true }));
  const sounds = [0, 1].map((phase) =>
    Float32Array.from({ length: 20_000 }, (_, i) => Math.sin(i / (9 + phase)) * 0.3)
  );
  const alone: Float32Array[] = [];
  for (const sound of sounds) alone.push((await features.compute(sound, NO_YIELD)).features);
  let numYields = 0;
  const yieldToOthers = async () => {
    numYields++;
    await new Promise((resolve) => setTimeout(resolve, 0));
  };
  const options = { yieldEvery: 10, yieldToOthers };
  const together = await Promise.all(sounds.map((sound) => features.compute(sound, options)));
  together.forEach(({ features }, i) => assert.deepEqual(features, alone[i]));
  assert.ok(numYields >= 20);
});

Deno.test("readUsmSpec() refuses unsupported settings, and reads supported ones", () => {
  const read = (config: Record<string, unknown>) => readUsmSpec(config, { isSemicausal: false });
  assert.throws(
    () => read({ hop_length: 0 }),
    /hop_length is 0; a number of at least 1 is expected/,
  );
  assert.throws(() => read({ frame_length: "many" }), /frame_length is "many"/);
  assert.throws(() => read({ dither: 0.1 }), /dither is 0.1, which is not supported/);
  assert.throws(() => read({ per_bin_mean: [1] }), /per_bin_mean is \[1\], which is not supported/);
  assert.equal(read({ frame_length: 400, fft_overdrive: false }).fftSamples, 512);
  assert.equal(read({ frame_length_ms: 20, sampling_rate: 8000 }).frameSamples, 160);
});
