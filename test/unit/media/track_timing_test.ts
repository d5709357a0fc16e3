import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { decodeWhole, readFixture } from "../../fixtures/audio/audio_files.ts";

const OPUS_RATE_HZ = 48_000;
const AAC_RATE_HZ = 44_100;

/** `samples` after `count` of silence. */
function delay(samples: Float32Array, count: number): Float32Array {
  const delayed = new Float32Array(count + samples.length);
  delayed.set(samples, count);
  return delayed;
}

/** Adds to the time of each fragment of a track, in the track's units. */
function shiftFragments(
  file: Uint8Array<ArrayBuffer>,
  { trackId, units }: { trackId: number; units: number },
): Uint8Array<ArrayBuffer> {
  const shifted = file.slice();
  const view = new DataView(shifted.buffer);
  const text = new TextDecoder("latin1").decode(file);
  for (let at = text.indexOf("traf"); at >= 0; at = text.indexOf("traf", at + 4)) {
    if (view.getUint32(text.indexOf("tfhd", at) + 8) !== trackId) continue;
    const timeAt = text.indexOf("tfdt", at) + 8;
    view.setBigUint64(timeAt, view.getBigUint64(timeAt) + BigInt(units));
  }
  return shifted;
}

Deno.test("decodeAudio() puts silence before sound if its edit list begins with an empty edit", async () => {
  const late = await decodeWhole(readFixture("late_44k_stereo.mp4"), AAC_RATE_HZ);
  const alone = await decodeWhole(readFixture("speech_44k_stereo.m4a"), AAC_RATE_HZ);
  // 476 ms, then the encoder's own 1024 samples, which this edit list keeps.
  const silence = Math.round(0.476 * AAC_RATE_HZ);
  assert.equal(late.length, 2 * AAC_RATE_HZ);
  assert.ok(late.subarray(0, silence).every((sample) => sample === 0));
  const start = silence + 1024;
  assertSameValues(late.subarray(start, start + alone.length), alone);
});

Deno.test("decodeAudio() puts silence before sound whose fragments begin after those of the video", async () => {
  const file = readFixture("video_44k_fragmented.mp4");
  const sound = await decodeWhole(file, AAC_RATE_HZ);
  const late = shiftFragments(file, { trackId: 2, units: 22_050 });
  assertSameValues(await decodeWhole(late, AAC_RATE_HZ), delay(sound, 22_050));
  // A recording that has already run for an hour still begins with its first fragment.
  const [pictures, sounds] = [{ trackId: 1, units: 16_384 }, { trackId: 2, units: AAC_RATE_HZ }];
  const hour = [pictures, sounds].map(({ trackId, units }) => ({ trackId, units: 3600 * units }));
  const hourLater = hour.reduce(shiftFragments, late);
  assertSameValues(await decodeWhole(hourLater, AAC_RATE_HZ), delay(sound, 22_050));
});

Deno.test("decodeAudio() puts silence before sound that begins after Matroska's video", async () => {
  const late = await decodeWhole(readFixture("late_48k_opus.mkv"), OPUS_RATE_HZ);
  const alone = await decodeWhole(readFixture("speech_48k_opus.webm"), OPUS_RATE_HZ);
  assertSameValues(late, delay(alone, 24_000));
});

Deno.test("decodeAudio() skips padding that WebM declares", async () => {
  const { length } = await decodeWhole(readFixture("speech_48k_opus.webm"), OPUS_RATE_HZ);
  assert.equal(length, 1.5 * OPUS_RATE_HZ);
});

Deno.test("decodeAudio() refuses a track with weeks of silence", async () => {
  const file = readFixture("late_44k_stereo.mp4");
  const list = new TextDecoder("latin1").decode(file).lastIndexOf("elst");
  new DataView(file.buffer).setUint32(list + 12, 0xffff_ffff);
  await assert.rejects(decodeWhole(file), {
    kind: "invalid_media",
    message: /begins after 1193 hours of silence; at most 8 hours are allowed/,
  });
});

Deno.test("decodeAudio() skips the beginning of Opus in MP4, even if the edit list does not", async () => {
  const file = readFixture("speech_48k_opus.mp4");
  const skipped = await decodeWhole(file, OPUS_RATE_HZ);
  const unedited = file.slice();
  const editsAt = new TextDecoder("latin1").decode(file).indexOf("elst") + 4;
  const view = new DataView(unedited.buffer);
  assert.equal(view.getInt32(editsAt + 12), 312);
  view.setInt32(editsAt + 12, 0);
  const kept = await decodeWhole(unedited, OPUS_RATE_HZ);
  assertSameValues(kept.subarray(0, skipped.length), skipped);
});
