import assert from "node:assert/strict";
import { readReference } from "../../../../src/models/tts/voices.ts";
import { makeWav, readFixture, SPEECH_FILES } from "../../../fixtures/audio/audio_files.ts";
import { recordSomebody } from "../../../fixtures/audio/recordings.ts";

Deno.test("readReference() reads every format as one channel at the requested rate", async () => {
  for (const name of SPEECH_FILES) {
    const samples = await readReference(readFixture(name), { sampleRateHz: 24_000 });
    assert.ok(samples.length >= 24_000 && samples.length <= 30 * 24_000, name);
    assert.ok(samples.some((sample) => Math.abs(sample) > 0.05), name);
  }
});

Deno.test("readReference() averages channels", async () => {
  const sides = Float32Array.from({ length: 32_000 }, (_, i) => i % 2 === 0 ? 0.5 : 0.25);
  const samples = await readReference(makeWav(sides, { numChannels: 2 }), {
    sampleRateHz: 16_000,
  });
  assert.equal(samples.length, 16_000);
  assert.ok(samples.every((sample) => Math.abs(sample - 0.375) < 1e-4));
});

Deno.test("readReference() accepts 1 to 30 seconds, and the beginning of longer ones if allowed", async () => {
  const record = (seconds: number) =>
    recordSomebody({ pitchHz: 150, seconds, sampleRateHz: 8_000 });
  const read = (seconds: number, isCut = false) =>
    readReference(record(seconds), { sampleRateHz: 16_000, isCut });
  assert.equal((await read(1)).length, 16_000);
  assert.equal((await read(30)).length, 480_000);
  await assert.rejects(() => read(0.9), /lasts 0\.90 s; send 1 to 30 s/);
  await assert.rejects(() => read(30.5), /lasts more than 30 s; send 1 to 30 s/);
  assert.equal((await read(30.5, true)).length, 480_000);
});
