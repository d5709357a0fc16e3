import assert from "node:assert/strict";
import { findAdapter } from "../../src/gpu/device.ts";
import { FakeHub } from "../fixtures/servers/fake_hub.ts";
import { runHearth } from "../fixtures/servers/hearth_process.ts";
import { hasTerminals, runInTerminal } from "../fixtures/servers/terminal.ts";
import { ScratchCache } from "../hub/scratch_cache.ts";

interface Report {
  readonly isHealthy: boolean;
  readonly checks: readonly { name: string; status: string; text: string }[];
  readonly adapters: readonly { features: string[]; limits: Record<string, number> }[];
}

function readText({ checks }: Report, name: string): string {
  const { status, text } = checks.find((check) => check.name === name)!;
  return `${status}: ${text}`;
}

Deno.test("doctor --json reports versions, adapters, the device it would use, self-tests, cache and hub", async () => {
  await using hub = new FakeHub();
  await using cache = new ScratchCache();
  await Deno.mkdir(`${cache.folder}/models--ada--engine/blobs`, { recursive: true });
  await Deno.writeFile(`${cache.folder}/models--ada--engine/blobs/0`, new Uint8Array(2000));
  const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache.folder, HF_HOME: cache.folder };
  const { code, stdout, stderr } = await runHearth(["doctor", "--json"], { env });
  assert.equal(code, 0, stderr);
  const report: Report = JSON.parse(stdout);
  assert.equal(report.isHealthy, true);
  assert.ok(readText(report, "runtime").includes(`Deno ${Deno.version.deno}`));
  assert.match(readText(report, "device"), /^ok: (the CPU|WebGPU on)/);
  assert.match(
    readText(report, "self-test on cpu"),
    /^ok: CPU .*a kernel gives the right results$/,
  );
  assert.match(readText(report, "cache"), /^ok: .*: 1 model, 2\.00 kB, .* free$/);
  assert.equal(readText(report, "hub"), `ok: ${hub.url} answers, without a token`);
  if (await findAdapter({ allowFallback: true }) === undefined) return;
  assert.match(readText(report, "self-test on webgpu"), /^ok: .*data is read back correctly/);
  assert.ok(report.adapters[0]!.limits["maxBufferSize"]! > 0);
});

Deno.test("doctor at a terminal prints the report as text, and warns if the hub refuses a request", async () => {
  await using hub = new FakeHub();
  hub.apiStatus = { status: 500 };
  await using cache = new ScratchCache();
  const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache.folder, HF_HOME: cache.folder };
  const { code, screen } = hasTerminals
    ? await runInTerminal(["doctor"], { env })
    : await runHearth(["doctor"], { env }).then((ending) => ({ ...ending, screen: ending.stdout }));
  assert.equal(code, 0, screen);
  assert.match(screen, /^Hearth \d+\.\d+\.\d+\n {2}ok +runtime +Deno /);
  assert.match(screen, /^ {2}warning +hub +.* refuses a list of models: 500\. Try again later/m);
  assert.match(screen, /\nHealthy\.\n$/);
});

Deno.test("doctor reports a problem and exits 1 if the cache's path is a file", async () => {
  await using cache = new ScratchCache();
  const file = `${cache.folder}/file`;
  await Deno.writeTextFile(file, "");
  const env = { HF_HUB_CACHE: file, HF_HUB_OFFLINE: "1" };
  const { code, stdout } = await runHearth(["doctor"], { env });
  assert.equal(code, 1);
  assert.match(stdout, /^ {2}FAILED +cache +.*file cannot be written: .*Set HF_HOME\.$/m);
  assert.match(stdout, /^ {2}ok +hub +https?:\S+ is not contacted: HF_HUB_OFFLINE is set$/m);
  assert.match(stdout, /\nNot healthy: see FAILED above\.\n$/);
});
