import assert from "node:assert/strict";
import { formatSrt, formatVtt } from "../../../src/media/subtitles.ts";

const CUES = [
  { startSeconds: 0.18, endSeconds: 59.9996, text: " Hello, <you> & me." },
  { startSeconds: 3661.5, endSeconds: 360_000, text: " One\n\ntwo --> three" },
];

Deno.test("formatSrt() numbers cues and writes times with a comma", () => {
  assert.equal(
    formatSrt(CUES),
    "1\n00:00:00,180 --> 00:01:00,000\nHello, <you> & me.\n\n" +
      "2\n01:01:01,500 --> 100:00:00,000\nOne two -> three\n\n",
  );
  assert.equal(formatSrt([]), "");
});

Deno.test("formatVtt() writes the header, times with a point, and escapes its markup", () => {
  assert.equal(
    formatVtt(CUES),
    "WEBVTT\n\n00:00:00.180 --> 00:01:00.000\nHello, &lt;you> &amp; me.\n\n" +
      "01:01:01.500 --> 100:00:00.000\nOne two -> three\n\n",
  );
  assert.equal(formatVtt([]), "WEBVTT\n\n");
});
