import { assertSameValues } from "../../fixtures/compare_values.ts";
import { decodeWhole, readFixture } from "../../fixtures/audio_files.ts";

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
