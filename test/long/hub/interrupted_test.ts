import { Buffer } from "node:buffer";
import assert from "node:assert/strict";
import { StartupError } from "../../../src/base/errors.ts";
import { parseHubId } from "../../../src/hub/cache.ts";
import { downloadFiles } from "../../../src/hub/download.ts";
import { fetchRepository } from "../../../src/hub/repository.ts";
import { configureLog } from "../../../src/base/log.ts";
import { FakeHub, type Fault, type FileRequest } from "../../fixtures/servers/fake_hub.ts";
import { Random } from "../../unit/engine/random.ts";
import { ScratchCache } from "../../hub/scratch_cache.ts";

const ID = "ada/engine";
const NUM_DOWNLOADS = 100;
const MAX_BYTES = 200_000;

const MAX_STARTS = 4;

function randomFiles(random: Random): Record<string, Uint8Array> {
  const sizes = [random.between(0, 1), random.between(0, MAX_BYTES), random.between(0, MAX_BYTES)];
  const names = ["a b.txt", "onnx/m.onnx_data", "onnx/m.onnx"];
  return Object.fromEntries(names.map((name, index) => [
    name,
    Uint8Array.from({ length: sizes[index]! }, () => random.between(0, 255)),
  ]));
}

function randomFault(random: Random, { start, bytes }: FileRequest): Fault | undefined {
  const faults: readonly Fault[] = [
    { type: "cut", afterBytes: random.between(0, bytes.length - start) },
    { type: "cut", afterBytes: 0 },
    { type: "cut", afterBytes: random.between(0, Math.min(1, bytes.length - start)) },
    { type: "status", status: 500 },
    { type: "status", status: 429, headers: { "retry-after": "3" } },
    { type: "noRange" },
    { type: "wrong" },
    { type: "slow", pieceBytes: 30_000, pauseMs: 1 },
  ];
  if (random.chance(0.02)) return { type: "status", status: 404 };
  return random.chance(0.6) ? random.pick(faults) : undefined;
}

/** Asserts that all blobs in the cache are correct, even if others are missing. */
function checkBlobs(cache: ScratchCache, files: Record<string, Uint8Array>, where: string): void {
  for (const [name, bytes] of cache.files(ID, "blobs")) {
    if (name.endsWith(".incomplete")) continue;
    const isWhole = Object.values(files).some((file) => Buffer.compare(file, bytes) === 0);
    assert.ok(isWhole, `${where}: blob ${name}`);
  }
}

Deno.test("downloadFiles() interrupted at random ends with identical files, or a clear error and no partial files", async () => {
  // Keeps warnings about wrong checksums out of the tests' output.
  configureLog({ level: "error", format: "text" });
  await using hub = new FakeHub();
  const random = new Random(20);
  const endings = { whole: 0, refused: 0, stopped: 0 };
  hub.onFile = (request) => randomFault(random, request);
  for (let round = 0; round < NUM_DOWNLOADS; round++) {
    await using cache = new ScratchCache();
    const settings = cache.settings({ HF_ENDPOINT: hub.url });
    const files = randomFiles(random);
    hub.addModel(ID, files);
    const repository = await fetchRepository(settings, parseHubId(ID)!);
    // Each start continues the previous one.
    for (let start = 0; start < MAX_STARTS; start++) {
      const stop = new AbortController();
      const stopAfterMs = start === 0 && random.chance(0.6) ? random.between(0, 20) : undefined;
      const timer = stopAfterMs !== undefined &&
        setTimeout(() => stop.abort("stopped"), stopAfterMs);
      const error = await downloadFiles(repository, Object.keys(files), {
        settings,
        signal: stop.signal,
        pause: () => Promise.resolve(),
      }).then(() => undefined, (reason: unknown) => reason);
      if (timer !== false) clearTimeout(timer);
      const where = `round ${round}, start ${start}: ${error}`;
      checkBlobs(cache, files, where);
      const visible = cache.files(ID, "snapshots");
      if (error === undefined) {
        endings.whole++;
        for (const [name, bytes] of Object.entries(files)) {
          const seen = visible.get(`${repository.commit}/${name}`);
          assert.ok(seen !== undefined && Buffer.compare(seen, bytes) === 0, `${where}: ${name}`);
        }
        assert.equal(visible.size, Object.keys(files).length);
        break;
      }
      assert.deepEqual([...visible.keys()], [], where);
      if (error === "stopped") {
        endings.stopped++;
        continue;
      }
      endings.refused++;
      assert.ok(error instanceof StartupError, where);
      assert.match(error.message, /of ada\/engine/);
    }
  }
  for (const [ending, times] of Object.entries(endings)) assert.ok(times > 5, `${ending} ${times}`);
  assert.ok(hub.requests.some(({ range }) => range !== null && range !== "bytes=0-"));
});
