import assert from "node:assert/strict";
import { join } from "node:path";
import { FakeHub } from "../fixtures/servers/fake_hub.ts";
import { HearthProcess, runHearth } from "../fixtures/servers/hearth_process.ts";
import { NEEDED_FILES, readHubModel } from "../fixtures/servers/hub_model.ts";
import { hasTerminals, runInTerminal } from "../fixtures/servers/terminal.ts";
import { ScratchCache } from "../hub/scratch_cache.ts";

// A model in the catalogue, so that it has an alias.
const ID = "HuggingFaceTB/SmolLM2-135M-Instruct";
const ALIAS = "smollm2-135m";
const FILES = readHubModel();
const Q4 = ["--device", "cpu"];

interface Scene {
  readonly hub: FakeHub;
  readonly cache: ScratchCache;
  readonly commit: string;
  readonly env: Record<string, string>;
}

async function withScene(use: (scene: Scene) => Promise<void>): Promise<void> {
  await using hub = new FakeHub();
  await using cache = new ScratchCache();
  const commit = hub.addModel(ID, FILES);
  const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache.folder, HF_HOME: cache.folder };
  await use({ hub, cache, commit, env });
}

function checkSnapshot({ cache, commit }: Scene): void {
  const there = cache.files(ID, "snapshots");
  assert.deepEqual(
    [...there.keys()].sort(),
    NEEDED_FILES.map((file) => `${commit}/${file}`).sort(),
  );
  for (const file of NEEDED_FILES) assert.deepEqual(there.get(`${commit}/${file}`), FILES[file]);
}

async function health(url: string): Promise<unknown> {
  return await (await fetch(`${url}/health`)).json();
}

Deno.test("pull downloads only what serving in the device's dtype needs, and reports it in lines", async () => {
  await withScene(async (scene) => {
    const { cache, commit, env } = scene;
    const { code, stdout, stderr } = await runHearth(["pull", ALIAS, ...Q4], { env });
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`^${ID} is ready to be served from .*${commit}\n$`));
    assert.match(stderr, /^HuggingFaceTB\/SmolLM2-135M-Instruct: downloading \S+ \d+%, .* of .*\n/);
    for (const mark of ["\r", "\x1b"]) assert.ok(!stderr.includes(mark), stderr);
    checkSnapshot(scene);
    assert.equal(new TextDecoder().decode(cache.files(ID, "refs").get("main")), commit);
  });
});

Deno.test("pull that is killed within a file leaves no partial snapshot, and the next pull resumes the file", async () => {
  await withScene(async (scene) => {
    const { hub, cache, env } = scene;
    // Only the first chunk of each file arrives, so files that are smaller than a chunk are complete.
    const pieceBytes = 200_000;
    hub.onFile = () => ({
      type: "stepped",
      pieceBytes,
      next: () => new Promise(() => {}),
    });
    const hasPartialFile = () => {
      try {
        return [...cache.files(ID, "blobs")].some(([name, { length }]) =>
          name.endsWith(".incomplete") && length === pieceBytes
        );
      } catch {
        // A file was completed, and therefore renamed, between listing and reading.
        return false;
      }
    };
    await using first = new HearthProcess(["pull", ID, ...Q4], { env });
    await first.logged(/downloading/);
    while (hub.numFileRequests < 3 || !hasPartialFile()) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    first.kill("SIGKILL");
    await first.ending;
    assert.deepEqual([...cache.files(ID, "snapshots").keys()], []);
    hub.onFile = () => undefined;
    assert.equal((await runHearth(["pull", ID, ...Q4], { env })).code, 0);
    checkSnapshot(scene);
    const resumed = hub.requests.filter(({ range }) => range !== null && range !== "bytes=0-");
    assert.ok(resumed.length > 0);
  });
});

Deno.test("pull and run restore the terminal when interrupted, say what is kept, and end by the signal", async () => {
  await withScene(async (scene) => {
    const { hub, env } = scene;
    const stopped = "hearth: Stopped. What has been downloaded is kept, and the next download " +
      "continues from there.\n";
    for (const words of [["pull", ID, ...Q4], ["run", ID, ...Q4, "-i", "Hello"]]) {
      const begun = Promise.withResolvers<void>();
      hub.onFile = ({ path }) => {
        if (!path.endsWith(".onnx")) return;
        begun.resolve();
        return { type: "stall" };
      };
      await using piped = new HearthProcess(words, { env });
      await begun.promise;
      piped.kill("SIGINT");
      const { signal, stderr } = await piped.ending;
      assert.equal(signal, "SIGINT");
      assert.ok(stderr.endsWith(stopped), stderr);
      if (!hasTerminals) continue;
      const shown = { env, keys: "\x03", typedAfter: /downloading/ };
      const { screen } = await runInTerminal(words, shown);
      assert.ok(screen.endsWith(`\r\x1b[K\r${stopped}`), JSON.stringify(screen.slice(-300)));
    }
  });
});

Deno.test("pull by two processes at the same time gives both the whole model", async () => {
  await withScene(async (scene) => {
    const { hub, env } = scene;
    hub.onFile = ({ path }) =>
      path.endsWith(".onnx") ? { type: "slow", pieceBytes: 400_000, pauseMs: 100 } : undefined;
    const endings = await Promise.all(
      [1, 2].map(() => runHearth(["pull", ID, ...Q4], { env })),
    );
    assert.deepEqual(endings.map(({ code }) => code), [0, 0], endings[1]?.stderr);
    checkSnapshot(scene);
  });
});

Deno.test("pull of a model that the hub refuses gives the hub's reason and exits 1", async () => {
  await withScene(async ({ hub, env }) => {
    hub.addModel("ada/secret", FILES, { isGated: true });
    const gated = await runHearth(["pull", "ada/secret"], { env });
    assert.equal(gated.code, 1);
    assert.match(gated.stderr, /^hearth: .*"Access to model ada\/secret is restricted.*HF_TOKEN/);
    assert.doesNotMatch(gated.stderr, / {4}at /);
    const missing = await runHearth(["pull", "ada/SmolLM2-135M"], { env });
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, new RegExp(`Similar names: ${ID}`));
  });
});

Deno.test("pull --dtype with a missing dtype names those that the repository has", async () => {
  await withScene(async ({ env }) => {
    const { code, stderr } = await runHearth(["pull", ID, "--dtype", "int8"], { env });
    assert.equal(code, 1);
    assert.match(stderr, /has no graph of dtype int8: it has fp32, fp16, q4\.\n$/);
  });
});

Deno.test("pull of a model in the cache fetches the hub's newer commit", async () => {
  await withScene(async (scene) => {
    const { hub, env } = scene;
    assert.equal((await runHearth(["pull", ID, ...Q4], { env })).code, 0);
    const commit = hub.addModel(ID, { ...FILES, "generation_config.json": "{}" });
    const { code, stdout } = await runHearth(["pull", ID, ...Q4], { env });
    assert.equal(code, 0);
    assert.ok(stdout.includes(commit));
  });
});

Deno.test("serve downloads in the background: /health reports the progress, and the next start sends no requests", async () => {
  await withScene(async (scene) => {
    const { hub, env, commit } = scene;
    const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
    // Sends the next chunk 150 ms after /health has reported the previous one, or after waiting a second for it.
    // Progress that follows the last report too soon is not reported.
    let told = Promise.withResolvers<void>();
    const next = async () => {
      told = Promise.withResolvers();
      await Promise.race([told.promise, pause(1_000)]);
      await pause(150);
    };
    hub.onFile = ({ path }) =>
      path.endsWith(".onnx") ? { type: "stepped", pieceBytes: 500_000, next } : undefined;
    const words = ["-p", "0", ...Q4, "-m"];
    await using hearth = new HearthProcess([...words, ALIAS], { env });
    const url = await hearth.url();
    const seen = new Set<string>();
    while (true) {
      const { status, error } = await health(url) as { status: string; error?: string };
      if (status === "ok") break;
      if (/ [1-9]\d*%$/.test(error!) && !seen.has(error!)) told.resolve();
      seen.add(error!);
      assert.doesNotMatch(hearth.stderr, /ERROR/);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const shares = [...seen].flatMap((error) =>
      /^loading: downloading onnx\/model_q4\.onnx (\d+)%$/.exec(error)?.[1] ?? []
    );
    assert.ok(shares.length > 1, [...seen].join("\n"));
    assert.match(hearth.stderr, /INFO {2}"?downloading.* share=\d+% detail=".* of .*"/);
    checkSnapshot(scene);

    const before = hub.requests.length;
    hub.apiStatus = { status: 500 };
    const names = [ID, `${ID}@${commit}`];
    const folder = join(
      scene.cache.folder,
      `models--${ID.replace("/", "--")}`,
      "snapshots",
      commit,
    );
    for (const name of [...names, folder]) {
      await using again = new HearthProcess([...words, name], { env });
      await again.ready();
      assert.match(again.stdout, new RegExp(`^ {2}model {4}${ID}$`, "m"));
      const rm = await runHearth(["rm", ID, "--yes"], { env: { ...env, ...again.runEnvironment } });
      assert.equal(rm.code, 1);
      assert.match(
        rm.stderr,
        /is being served at http:\S+ by process \d+: stop that server first\.\n$/,
      );
    }
    assert.equal(hub.requests.length, before);
  });
});

Deno.test("serve of a model that the hub refuses ends with the hub's reason", async () => {
  await withScene(async ({ env }) => {
    const { code, stderr } = await runHearth(["-p", "0", ...Q4, "-m", "ada/nothing"], { env });
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^hearth: .*refuses ada\/nothing: 401, "Invalid username or password\."\. .*\n$/,
    );
  });
});

Deno.test("serve --offline of a model that is not in the cache says what to do", async () => {
  await withScene(async ({ hub, env }) => {
    for (const offline of [{ words: ["--offline"] }, { words: [], env: { HF_HUB_OFFLINE: "1" } }]) {
      const { code, stdout, stderr } = await runHearth(
        ["-p", "0", ...Q4, "-m", ID, ...offline.words],
        { env: { ...env, ...offline.env } },
      );
      assert.equal(code, 1);
      assert.equal(stdout, "");
      assert.match(stderr, /To download it: .* pull HuggingFaceTB/);
      assert.match(stderr, /The server is offline \(--offline, HF_HUB_OFFLINE\)/);
    }
    assert.equal(hub.requests.length, 0);
  });
});
