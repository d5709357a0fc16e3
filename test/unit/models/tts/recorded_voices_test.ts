import assert from "node:assert/strict";
import { RecordedVoices } from "../../../../src/models/tts/voices.ts";
import type { VoiceCloner } from "../../../../src/models/tts/synthesizer.ts";
import { recordSomebody } from "../../../fixtures/audio/recordings.ts";

const MIB = 1024 * 1024;

/** Makes voices that take `numBytes` each, and counts them. */
function openVoices(numBytes: number) {
  const made: number[] = [];
  const cloner: VoiceCloner = {
    sampleRateHz: 16_000,
    clone: async (samples) => {
      await Promise.resolve();
      return { voice: { id: `${samples.length}`, language: "en" }, numBytes };
    },
  };
  const voices = new RecordedVoices(cloner, () => made.push(made.length));
  const makeVoice = (pitchHz: number) => {
    const audio = recordSomebody({ pitchHz, seconds: 1, sampleRateHz: 8_000 });
    return voices.encodeVoice({ audio, param: "x" });
  };
  return { made, makeVoice };
}

Deno.test("RecordedVoices.encodeVoice() makes one voice per recording, also concurrently", async () => {
  const { made, makeVoice } = openVoices(MIB);
  const [first, second] = await Promise.all([makeVoice(100), makeVoice(100)]);
  assert.equal(first, second);
  assert.equal(await makeVoice(100), first);
  assert.equal(made.length, 1);
  assert.notEqual(await makeVoice(101), first);
  assert.equal(made.length, 2);
});

Deno.test("RecordedVoices.encodeVoice() forgets the least recently used voice", async () => {
  const { made, makeVoice } = openVoices(30 * MIB);
  for (const pitchHz of [100, 101, 100, 102]) await makeVoice(pitchHz);
  assert.equal(made.length, 3);
  await makeVoice(100);
  assert.equal(made.length, 3);
  await makeVoice(101);
  assert.equal(made.length, 4);
});

Deno.test("RecordedVoices.encodeVoice() clones a voice again if that failed before", async () => {
  const voice = { id: "late", language: "en" };
  const clone = [
    () => Promise.reject(new Error("the device was lost")),
    () => Promise.resolve({ voice, numBytes: MIB }),
  ][Symbol.iterator]();
  let numMade = 0;
  const voices = new RecordedVoices(
    { sampleRateHz: 16_000, clone: () => clone.next().value!() },
    () => numMade++,
  );
  const audio = recordSomebody({ pitchHz: 100, seconds: 1, sampleRateHz: 8_000 });
  await assert.rejects(voices.encodeVoice({ audio, param: "x" }), /the device was lost/);
  assert.equal(numMade, 0);
  assert.equal(await voices.encodeVoice({ audio, param: "x" }), voice);
  assert.equal(numMade, 1);
});

Deno.test("RecordedVoices.encodeVoice() names each caller's own field in the error of a recording", async () => {
  const voices = new RecordedVoices({
    sampleRateHz: 16_000,
    clone: () => Promise.reject(new Error("not reached")),
  }, () => {});
  const audio = recordSomebody({ pitchHz: 100, seconds: 0.2, sampleRateHz: 8_000 });
  const seen = await Promise.allSettled(
    ["one", "two", "three"].map((param) => voices.encodeVoice({ audio, param })),
  );
  for (const [index, param] of ["one", "two", "three"].entries()) {
    const result = seen[index]!;
    assert.equal(result.status, "rejected");
    assert.equal(result.reason.param, param);
    assert.match(result.reason.message, new RegExp(`^${param}: The recording lasts 0.20 s`));
  }
});
