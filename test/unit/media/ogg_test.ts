import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { decodeWhole, readFixture } from "../../fixtures/audio/audio_files.ts";

const RATE_HZ = 44_100;

// Cut at half a second without decoding: the first page, of a whole second, is there and begins before position 0.
for (
  const [cut, whole] of [
    ["cut_48k_stereo.opus", "speech_48k_stereo.opus"],
    ["cut_44k_stereo.ogg", "speech_44k_stereo.ogg"],
  ] as const
) {
  Deno.test(`readOgg() keeps the end of ${cut}, whose positions begin before 0`, async () => {
    assertSameValues(await decodeWhole(readFixture(cut)), await decodeWhole(readFixture(whole)));
  });
}

Deno.test("readOgg() keeps all of a page of Vorbis that was cut out, and begins before position 0", async () => {
  const cut = await decodeWhole(readFixture("cut_page_44k_stereo.ogg"), RATE_HZ);
  const whole = await decodeWhole(readFixture("speech_44k_stereo.ogg"), RATE_HZ);
  assert.equal(cut.length, 35_520);
  assertSameValues(cut, whole.slice(0, cut.length));
});
