import assert from "node:assert/strict";
import { describeDownload, formatDuration, SparseLines } from "../../../src/cli/loading.ts";

Deno.test("describeDownload() shows file, share, amounts, rate and remaining time", () => {
  const progress = {
    file: "onnx/model_q4f16.onnx",
    receivedBytes: 238_000_000,
    totalBytes: 568_000_000,
    bytesPerSecond: 12_400_000,
    secondsLeft: 26.6,
  };
  const { what, fraction, detail } = describeDownload(progress);
  assert.equal(what, "downloading onnx/model_q4f16.onnx");
  assert.equal(Math.floor(fraction! * 100), 41);
  assert.equal(detail, "238 MB of 568 MB, 12.4 MB/s, 27 s left");
  const still = describeDownload({ ...progress, bytesPerSecond: 0, secondsLeft: undefined });
  assert.equal(still.detail, "238 MB of 568 MB");
  assert.equal(describeDownload({ ...progress, receivedBytes: 0, totalBytes: 0 }).fraction, 1);
});

Deno.test("formatDuration() returns at most two units", () => {
  assert.equal(formatDuration(0.2), "1 s");
  assert.equal(formatDuration(59), "59 s");
  assert.equal(formatDuration(185), "3 min 5 s");
  assert.equal(formatDuration(7865), "2 h 11 min");
});

Deno.test("SparseLines passes the first line and then one every five seconds", () => {
  let nowMs = 0;
  const seen: string[] = [];
  const lines = new SparseLines(({ what }) => seen.push(what), () => nowMs);
  for (; nowMs <= 12_000; nowMs += 500) lines.show({ what: `${nowMs}` });
  assert.deepEqual(seen, ["0", "5000", "10000"]);
});
