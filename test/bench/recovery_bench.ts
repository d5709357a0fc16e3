/**
 * Measures the time from the loss of the device until the server answers again: medians over several losses, each in a
 * new server with the built-in model. On the CPU, where no device can be lost, the worker pretends that it was.
 *
 *     deno run -A test/bench/recovery_bench.ts [rounds]
 *
 * @module
 */
import type { DeviceChoice } from "../../src/base/config.ts";
import { findAdapter } from "../../src/gpu/device.ts";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";
import { chatBody, TestServer } from "../fixtures/servers/server.ts";

const CHAT = "/v1/chat/completions";
const DEFAULT_ROUNDS = 5;

interface Recovery {
  readonly unhealthyMs: number;
  readonly readyMs: number;
  readonly answeredMs: number;
}

async function measureRecovery(device: DeviceChoice): Promise<Recovery> {
  const { spawnWorker, workers } = fragileSpawner("lose-on=lose");
  await using server = await TestServer.start({ device, spawnWorker });
  const { app } = server;
  await (await app.post(CHAT, chatBody())).json();

  const began = performance.now();
  workers[0]!.postMessage({ type: device === "cpu" ? "lose" : "destroy-device" });
  while ((await app.request("/health")).ok) await new Promise((resolve) => setTimeout(resolve, 1));
  const unhealthyMs = performance.now() - began;
  await app.session.ready();
  const readyMs = performance.now() - began;
  const answer = await app.post(CHAT, chatBody());
  if (!answer.ok) throw new Error(await answer.text());
  return { unhealthyMs, readyMs, answeredMs: performance.now() - began };
}

function showMedian(milliseconds: readonly number[]): string {
  const sorted = milliseconds.toSorted((a, b) => a - b);
  return `${((sorted[Math.floor(sorted.length / 2)] ?? NaN) / 1000).toFixed(2)} s`;
}

if (import.meta.main) {
  const rounds = Number(Deno.args[0] ?? DEFAULT_ROUNDS);
  const hasAdapter = await findAdapter({ allowFallback: true }) !== undefined;
  const lines = [
    "| after the loss of the device | health 503 | ready | 8 tokens answered |",
    "| --- | --- | --- | --- |",
  ];
  const devices: readonly DeviceChoice[] = hasAdapter ? ["cpu", "webgpu"] : ["cpu"];
  for (const device of devices) {
    const recoveries: Recovery[] = [];
    for (let round = 0; round < rounds; round++) recoveries.push(await measureRecovery(device));
    const columns = (["unhealthyMs", "readyMs", "answeredMs"] as const)
      .map((name) => showMedian(recoveries.map((recovery) => recovery[name])));
    lines.push(`| --device ${device}, median of ${rounds} | ${columns.join(" | ")} |`);
  }
  // deno-lint-ignore no-console -- its purpose
  console.log(lines.join("\n"));
  Deno.exit(0);
}
