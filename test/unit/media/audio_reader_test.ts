import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { AudioReader } from "../../../src/media/audio.ts";
import { makeWav, RATE_HZ } from "../../fixtures/audio/audio_files.ts";

const LENGTH = 700_000;
const KEPT = 65_536;

/** Samples whose values depend on their positions. */
const SAMPLES = Float32Array.from(
  { length: LENGTH },
  (_, i) => (i * 7919 % 65_536 - 32_768) / 32_768,
);
const WAV = makeWav(SAMPLES);

function open(keptSamples?: number, signal?: AbortSignal): AudioReader {
  return new AudioReader(WAV, {
    sampleRateHz: RATE_HZ,
    signal,
    ...(keptSamples && { keptSamples }),
  });
}

for (const [what, kept] of [["all in memory", undefined], ["little in memory", KEPT]] as const) {
  Deno.test(`AudioReader.read() reads any range of a recording, with ${what}`, async () => {
    await using audio = open(kept);
    assert.equal(await audio.scan(), LENGTH);
    const places = [[0, 100], [50, 300_000], [65_535, 65_538], [131_072, 131_073], [0, LENGTH]];
    const beyond = [[LENGTH - 10, LENGTH + 500], [LENGTH + 5, LENGTH + 9], [3, 3], [20, 400_000]];
    for (const [start, end] of [...places, ...beyond] as [number, number][]) {
      assertSameValues(
        await audio.read(start, end),
        SAMPLES.slice(start, end),
        `${start} to ${end}`,
      );
    }
  });

  Deno.test(`AudioReader.scan() shows every sample once, also after a range was read, with ${what}`, async () => {
    await using audio = open(kept);
    for (const read of [[], [[0, 10]], [[500_000, 600_000]]] as [number, number][][]) {
      for (const [start, end] of read) await audio.read(start, end);
      const seen: number[] = [];
      await audio.scan((samples) =>
        Promise.resolve(void samples.forEach((each) => seen.push(each)))
      );
      assert.equal(seen.length, LENGTH);
      assert.ok(seen.every((sample, i) => sample === SAMPLES[i]));
    }
  });
}

Deno.test("AudioReader stops between chunks when its signal is aborted, and refuses files that are not audio", async () => {
  const abort = new AbortController();
  await using audio = open(KEPT, abort.signal);
  const scan = audio.scan(() => Promise.resolve(abort.abort(new Error("enough"))));
  await assert.rejects(scan, /enough/);
  const options = { sampleRateHz: RATE_HZ };
  await using noise = new AudioReader(new Uint8Array(100), options);
  await assert.rejects(noise.scan(), { kind: "invalid_media" });
});
