import assert from "node:assert/strict";
import { join } from "node:path";
import { StartupError } from "../../src/base/errors.ts";
import { measureFolder, parseHubId } from "../../src/hub/cache.ts";
import { downloadFiles, type DownloadOptions, waitForSpace } from "../../src/hub/download.ts";
import { fetchRepository, type Repository } from "../../src/hub/repository.ts";
import { FakeHub, type Fault } from "../fixtures/servers/fake_hub.ts";
import { ScratchCache } from "./scratch_cache.ts";

const ID = "ada/engine";
const FILES = {
  "config.json": "{}",
  "onnx/model.onnx": crypto.getRandomValues(new Uint8Array(60_000)),
};

interface Scene {
  readonly hub: FakeHub;
  readonly cache: ScratchCache;
  readonly repository: Repository;
  readonly pauses: number[];
  download(options?: Partial<DownloadOptions>): Promise<string>;
}

/** A short timeout, for its own tests. Other tests count requests, and a busy machine would retry some after it. */
const HASTY = { HF_HUB_DOWNLOAD_TIMEOUT: "0.3" };

async function withScene(
  use: (scene: Scene) => Promise<void>,
  environment: Record<string, string> = {},
): Promise<void> {
  await using hub = new FakeHub();
  await using cache = new ScratchCache();
  const settings = cache.settings({ HF_ENDPOINT: hub.url, ...environment });
  hub.addModel(ID, FILES);
  const repository = await fetchRepository(settings, parseHubId(ID)!);
  const pauses: number[] = [];
  const download = (options: Partial<DownloadOptions> = {}) =>
    downloadFiles(repository, Object.keys(FILES), {
      settings,
      pause: (ms) => (pauses.push(ms), Promise.resolve()),
      ...options,
    });
  await use({ hub, cache, repository, pauses, download });
}

async function failure(act: Promise<unknown>): Promise<string> {
  const error = await act.then(() => assert.fail("It went well."), (reason: unknown) => reason);
  assert.ok(error instanceof StartupError, String(error));
  return error.message;
}

/** Gives each request for the graph the next fault, and none when all have been given. */
function inTurn(...faults: Fault[]): FakeHub["onFile"] {
  return ({ path }) => path === "onnx/model.onnx" ? faults.shift() : undefined;
}

Deno.test("downloadFiles() makes blobs named by checksum, and a snapshot of relative links to them", async () => {
  await withScene(async ({ cache, repository, download }) => {
    const folder = await download();
    assert.ok(folder.endsWith(join("models--ada--engine", "snapshots", repository.commit)));
    const link = await Deno.readLink(join(folder, "onnx", "model.onnx"));
    const { digest } = repository.files.get("onnx/model.onnx")!;
    assert.equal(digest.kind, "sha256");
    assert.equal(link, join("..", "..", "..", "blobs", digest.hex));
    // The output of `printf '{}' | git hash-object --stdin`.
    const names = ["9e26dfeeb6e641a33dae4961196235bdb965b21b", digest.hex];
    assert.deepEqual([...cache.files(ID, "blobs").keys()].sort(), names.sort());
  });
});

Deno.test("downloadFiles() makes copies instead of symbolic links with HF_HUB_DISABLE_SYMLINKS", async () => {
  await withScene(async ({ download }) => {
    const path = join(await download(), "onnx", "model.onnx");
    assert.equal((await Deno.lstat(path)).isSymlink, false);
    assert.deepEqual(await Deno.readFile(path), FILES["onnx/model.onnx"]);
  }, { HF_HUB_DISABLE_SYMLINKS: "1" });
});

Deno.test("downloadFiles() makes hard links if symbolic links are not permitted, and measureFolder() counts a file once", async () => {
  const { symlink } = Deno;
  Deno.symlink = () => Promise.reject(new Deno.errors.PermissionDenied("as on Windows"));
  try {
    await withScene(async ({ cache, repository, download }) => {
      const folder = await download();
      const model = join(folder, "../..");
      const path = join(folder, "onnx", "model.onnx");
      const { digest } = repository.files.get("onnx/model.onnx")!;
      const blob = await Deno.stat(join(model, "blobs", digest.hex));
      assert.equal((await Deno.lstat(path)).ino, blob.ino);
      const blobs = [...cache.files(ID, "blobs").values()];
      assert.equal(await measureFolder(model), blobs.reduce((sum, { length }) => sum + length, 0));
    });
  } finally {
    Deno.symlink = symlink;
  }
});

Deno.test("downloadFiles() does not fetch files that the cache already has", async () => {
  await withScene(async ({ hub, download }) => {
    await download();
    const before = hub.numFileRequests;
    await download();
    assert.equal(hub.numFileRequests, before);
  });
});

Deno.test("downloadFiles() resumes after an interruption, and never requests a byte twice", async () => {
  await withScene(async ({ hub, download }) => {
    hub.onFile = inTurn({ type: "cut", afterBytes: 20_000 }, { type: "cut", afterBytes: 5_000 });
    const folder = await download();
    const ranges = hub.requests
      .filter(({ host, path }) => host === "files" && path.endsWith("model.onnx"))
      .map(({ range }) => Number(/\d+/.exec(range ?? "")![0]));
    assert.equal(ranges.length, 3);
    assert.deepEqual(ranges, [...new Set(ranges)].sort((a, b) => a - b));
    assert.deepEqual(
      await Deno.readFile(join(folder, "onnx/model.onnx")),
      FILES["onnx/model.onnx"],
    );
  });
});

Deno.test("downloadFiles() waits longer each time, and as long as the hub asks", async () => {
  await withScene(async ({ hub, pauses, download }) => {
    const busy: Fault = { type: "status", status: 503 };
    hub.onFile = inTurn(busy, busy, busy, {
      type: "status",
      status: 429,
      headers: { "retry-after": "7" },
    });
    await download();
    assert.equal(pauses.length, 4);
    assert.ok(pauses[0]! >= 375 && pauses[0]! <= 625, String(pauses));
    assert.ok(pauses[1]! >= 750 && pauses[1]! <= 1250, String(pauses));
    assert.ok(pauses[2]! >= 1500 && pauses[2]! <= 2500, String(pauses));
    assert.equal(pauses[3], 7000);
  });
});

Deno.test("downloadFiles() gives up after five failures in a row, and says what to do", async () => {
  await withScene(async ({ hub, cache, download }) => {
    hub.onFile = ({ start }) => ({ type: "cut", afterBytes: start === 0 ? 1000 : 0 });
    const message = await failure(download());
    assert.match(message, /onnx\/model\.onnx of ada\/engine broke off at byte 1000 of 60000: /);
    assert.match(message, /Run the command again to resume it\.$/);
    assert.deepEqual([...cache.files(ID, "snapshots").keys()], []);
  });
});

Deno.test("downloadFiles() retries a connection that sends nothing, and finally reports the timeout", async () => {
  await withScene(async ({ hub, download }) => {
    hub.onFile = inTurn({ type: "stall" });
    await download();
  }, HASTY);
  await withScene(async ({ hub, download }) => {
    hub.onFile = () => ({ type: "stall" });
    assert.match(await failure(download()), /no data arrived for 0\.3 s/);
  }, HASTY);
});

Deno.test("downloadFiles() completes over a slow connection that keeps sending", async () => {
  await withScene(async ({ hub, download }) => {
    hub.onFile = inTurn({ type: "slow", pieceBytes: 6_000, pauseMs: 60 });
    await download();
  }, HASTY);
});

Deno.test("downloadFiles() fetches a file with a wrong checksum again, and refuses a second wrong one", async () => {
  await withScene(async ({ hub, cache, download }) => {
    hub.onFile = inTurn({ type: "wrong" });
    await download();
    assert.ok(![...cache.files(ID, "blobs").keys()].some((name) => name.endsWith(".incomplete")));
  });
  await withScene(async ({ hub, cache, download }) => {
    hub.onFile = inTurn({ type: "wrong" }, { type: "wrong" });
    assert.match(
      await failure(download()),
      /twice, both times with a wrong checksum: wanted sha256 /,
    );
    assert.deepEqual([...cache.files(ID, "snapshots").keys()], []);
  });
});

Deno.test("downloadFiles() uses a partial file that has all bytes, and fetches a file again whose partial bytes are wrong", async () => {
  await withScene(async ({ hub, cache, repository, download }) => {
    const blobs = join(cache.folder, "models--ada--engine", "blobs");
    const { hex } = repository.files.get("onnx/model.onnx")!.digest;
    await Deno.mkdir(blobs, { recursive: true });
    await Deno.writeFile(join(blobs, `${hex}.incomplete`), FILES["onnx/model.onnx"]);
    await download();
    assert.ok(!hub.requests.some(({ host, path }) => host === "files" && path.endsWith(".onnx")));
  });
  await withScene(async ({ cache, repository, download }) => {
    const blobs = join(cache.folder, "models--ada--engine", "blobs");
    const { hex } = repository.files.get("onnx/model.onnx")!.digest;
    await Deno.mkdir(blobs, { recursive: true });
    await Deno.writeFile(join(blobs, `${hex}.incomplete`), new Uint8Array(30_000));
    const folder = await download();
    assert.deepEqual(
      await Deno.readFile(join(folder, "onnx/model.onnx")),
      FILES["onnx/model.onnx"],
    );
  });
});

Deno.test("downloadFiles() refuses to begin if the disk has too little space", async () => {
  await withScene(async ({ hub, cache, download }) => {
    const message = await failure(download({ findFreeBytes: () => Promise.resolve(50_000) }));
    assert.match(message, /^ada\/engine needs 60\.0 kB more on the disk of /);
    assert.ok(message.includes(cache.folder));
    assert.match(message, /which has 50\.0 kB free\. Free some space/);
    assert.equal(hub.numFileRequests, 0);
  });
});

Deno.test("waitForSpace() retries a download until there is space, and retries no other error", async () => {
  await withScene(async ({ cache, download }) => {
    const free = [50_000, 60_000, 2 ** 40];
    const reasons: string[] = [];
    const pauses: number[] = [];
    const options = {
      onFull: (reason: string) => reasons.push(reason),
      pause: (ms: number) => (pauses.push(ms), Promise.resolve()),
    };
    const folder = await waitForSpace(
      () => download({ findFreeBytes: () => Promise.resolve(free.shift()) }),
      options,
    );
    assert.ok(folder.startsWith(cache.folder));
    assert.deepEqual(pauses, [30_000, 30_000]);
    assert.match(reasons[0]!, /needs 60\.0 kB more/);
    const full = new Error("No space left on device (os error 28)");
    let numTries = 0;
    const written = () =>
      ++numTries < 3
        ? Promise.reject(new StartupError("broke off", { cause: full }))
        : Promise.resolve("done");
    assert.equal(await waitForSpace(written, options), "done");
    const other = waitForSpace(() => Promise.reject(new StartupError("no such model")), options);
    await assert.rejects(other, /no such model/);
    const abort = new AbortController();
    const stopped = waitForSpace(() => Promise.reject(full), {
      onFull: () => abort.abort(new Error("stopped")),
      signal: abort.signal,
    });
    await assert.rejects(stopped, /stopped/);
  });
});

Deno.test("downloadFiles() called twice at the same time fetches each file once", async () => {
  await withScene(async ({ hub, download }) => {
    hub.onFile = () => ({ type: "slow", pieceBytes: 10_000, pauseMs: 20 });
    const [first, second] = await Promise.all([download(), download()]);
    assert.equal(first, second);
    assert.equal(hub.numFileRequests, Object.keys(FILES).length);
  });
});

Deno.test("downloadFiles() reports the numbers of received and of all bytes", async () => {
  await withScene(async ({ hub, download }) => {
    hub.onFile = inTurn({ type: "slow", pieceBytes: 10_000, pauseMs: 60 });
    const seen: number[] = [];
    await download({
      onProgress: ({ file, receivedBytes, totalBytes }) => {
        if (receivedBytes > 0) assert.equal(file, "onnx/model.onnx");
        assert.equal(totalBytes, 60_002);
        seen.push(receivedBytes);
      },
    });
    assert.deepEqual(seen, [...seen].sort((a, b) => a - b));
    assert.ok(seen.some((bytes) => bytes > 0 && bytes < 60_000), String(seen));
  });
});

Deno.test("downloadFiles() sends the token to the hub and to no other host", async () => {
  await withScene(async ({ hub, download }) => {
    await download();
    assert.ok(hub.requests.some(({ host }) => host === "files"));
    for (const { host, authorization } of hub.requests) {
      assert.equal(authorization, host === "hub" ? "Bearer hf_right" : null);
    }
  }, { HF_TOKEN: "hf_right" });
});
