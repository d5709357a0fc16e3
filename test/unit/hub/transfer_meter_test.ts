import assert from "node:assert/strict";
import { TransferMeter } from "../../../src/hub/download.ts";

Deno.test("TransferMeter returns the rate of the last seconds and the remaining time at that rate", () => {
  const meter = new TransferMeter(100_000);
  assert.deepEqual(meter.record(0, 0), { bytesPerSecond: 0, secondsLeft: undefined });
  assert.deepEqual(meter.record(1000, 1000), { bytesPerSecond: 1000, secondsLeft: 99 });
  for (let second = 2; second <= 10; second++) meter.record(1000 * second, 1000 * second);
  for (let second = 11; second < 16; second++) {
    meter.record(10_000 + (second - 10) * 5000, 1000 * second);
  }
  // The slow first seconds no longer count.
  assert.deepEqual(meter.record(40_000, 16_000), { bytesPerSecond: 5000, secondsLeft: 12 });
});

Deno.test("TransferMeter starts its measurement again if a file starts again at byte 0", () => {
  const meter = new TransferMeter(10_000);
  meter.record(0, 0);
  meter.record(5000, 1000);
  assert.deepEqual(meter.record(0, 2000), { bytesPerSecond: 0, secondsLeft: undefined });
  assert.equal(meter.record(2000, 3000).bytesPerSecond, 2000);
});
