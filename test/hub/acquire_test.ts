import assert from "node:assert/strict";
import { parseHubId } from "../../src/hub/cache.ts";
import { HubError } from "../../src/hub/hub_request.ts";
import { configureLog } from "../../src/base/log.ts";
import { acquireModel, type AcquireOptions } from "../../src/hub/acquire.ts";
import { chooseFiles, type ModelChoice } from "../../src/models/load/choose_files.ts";
import { type ModelFolder, openAnyFolder } from "../../src/hub/model_folder.ts";
import { FakeHub } from "../fixtures/servers/fake_hub.ts";
import { readHubModel } from "../fixtures/servers/hub_model.ts";
import { ScratchCache } from "./scratch_cache.ts";

const ID = "ada/engine";
const MODEL = { id: ID, aliases: [], ownedBy: "ada", hubId: parseHubId(ID)! };

interface Scene {
  readonly hub: FakeHub;
  readonly cache: ScratchCache;
  get(options?: Partial<AcquireOptions & ModelChoice>): Promise<readonly string[]>;
}

/** Sets up a hub and a cache. `get` acquires the model, by default for the CPU, and returns the graphs in the cache. */
async function withScene(use: (scene: Scene) => Promise<void>): Promise<void> {
  configureLog({ level: "error", format: "text" });
  await using hub = new FakeHub();
  await using cache = new ScratchCache();
  hub.addModel(ID, readHubModel());
  const settings = cache.settings({ HF_ENDPOINT: hub.url });
  const get = async (
    { dtype, device = "cpu", ...options }: Partial<AcquireOptions & ModelChoice> = {},
  ) => {
    const { folder } = await acquireModel(MODEL, {
      settings,
      chooseFiles: (folder) => chooseFiles(folder, { dtype, device }),
      pause: () => Promise.resolve(),
      ...options,
    });
    return [...Deno.readDirSync(`${folder}/onnx`)].map(({ name }) => name).sort();
  };
  await use({ hub, cache, get });
}

Deno.test("acquireModel() uses a complete cache and sends no request", async () => {
  await withScene(async ({ hub, get }) => {
    assert.deepEqual(await get(), ["model_q4.onnx"]);
    const before = hub.requests.length;
    assert.deepEqual(await get(), ["model_q4.onnx"]);
    assert.equal(hub.requests.length, before);
  });
});

Deno.test("acquireModel() fetches the additional files of another dtype", async () => {
  await withScene(async ({ get }) => {
    await get();
    assert.deepEqual(await get({ dtype: "fp16" }), ["model_fp16.onnx", "model_q4.onnx"]);
    assert.deepEqual(await get({ device: "gpuWithF16" }), ["model_fp16.onnx", "model_q4.onnx"]);
  });
});

Deno.test("acquireModel() asks the hub once for a better dtype for the device, and uses the cache if it does not answer", async () => {
  await withScene(async ({ hub, get }) => {
    await get();
    hub.apiStatus = { status: 503 };
    // q4f16 or fp16 would suit a GPU better. The cache has q4, and no marker that there is nothing else.
    const before = hub.requests.length;
    assert.deepEqual(await get({ device: "gpuWithF16" }), ["model_q4.onnx"]);
    assert.equal(hub.requests.length, before + 1);
    hub.apiStatus = undefined;
    assert.deepEqual(await get({ device: "gpuWithF16" }), ["model_fp16.onnx", "model_q4.onnx"]);
    const after = hub.requests.length;
    await get({ device: "gpuWithF16" });
    assert.equal(hub.requests.length, after);
  });
});

Deno.test("acquireModel() uses a cache that cannot be written if it has the files, and otherwise reports that it cannot be written", async () => {
  await withScene(async ({ cache, get }) => {
    await get();
    // A file with a folder's path is an obstacle even for root.
    await Deno.remove(`${cache.folder}/.locks`, { recursive: true });
    await Deno.writeTextFile(`${cache.folder}/.locks`, "");
    assert.deepEqual(await get({ device: "gpuWithF16" }), ["model_q4.onnx"]);
    await assert.rejects(get({ dtype: "fp16" }), {
      name: "StartupError",
      message:
        /^The cache folder .* cannot be written: .*\(os error \d+\).* HF_HOME or HF_HUB_CACHE\.$/,
    });
  });
});

Deno.test("acquireModel() with refresh always asks, and fails if it cannot", async () => {
  await withScene(async ({ hub, get }) => {
    await get();
    hub.apiStatus = { status: 503 };
    await assert.rejects(get({ refresh: true }), HubError);
  });
});

Deno.test("acquireModel() completes a snapshot whose weights are cut off", async () => {
  await withScene(async ({ cache, get }) => {
    await get();
    const blobs = `${cache.folder}/models--ada--engine/blobs`;
    const sizes = [...Deno.readDirSync(blobs)].map(({ name }) => ({
      name,
      size: Deno.statSync(`${blobs}/${name}`).size,
    }));
    const largest = sizes.sort((a, b) => b.size - a.size)[0]!;
    await Deno.truncate(`${blobs}/${largest.name}`, 100_000);
    await get();
    assert.equal((await Deno.stat(`${blobs}/${largest.name}`)).size, largest.size);
  });
});

Deno.test("acquireModel() of a repository without graphs says what it has, and names a repository with graphs", async () => {
  await withScene(async ({ hub, get }) => {
    hub.addModel(ID, { "config.json": "{}", "model.safetensors": "x" });
    await assert.rejects(
      get(),
      /^StartupError: ada\/engine has no ONNX graphs, only weights for PyTorch\. .* Look for an ONNX version of it/,
    );
    hub.addModel("onnx-community/Engine-ONNX", { "config.json": "{}" });
    await assert.rejects(
      get(),
      /ONNX models with a similar name on the hub: onnx-community\/Engine-ONNX\./,
    );
    hub.addModel(ID, { "engine-Q4_0.gguf": "x" });
    await assert.rejects(get(), /ada\/engine has no ONNX graphs, only GGUF files\./);
  });
});

Deno.test("acquireModel() gets the needed graphs of PP-OCR from a repository without config.json", async () => {
  await withScene(async ({ hub, cache }) => {
    const graph = readHubModel()["onnx/model_q4.onnx"]!;
    const wanted = {
      "PP-OCRv4/ch_PP-OCRv4_det_infer.onnx": graph,
      "PP-OCRv4/ch_PP-OCRv4_rec_infer.onnx": graph,
      "ppocr_keys_v1.txt": "一\n",
    };
    hub.addModel(ID, {
      ...wanted,
      "PP-OCRv4/ch_PP-OCRv4_det_server_infer.onnx": "unneeded",
      "PP-OCRv3/ch_PP-OCRv3_det_infer.onnx": "unneeded",
      "README.md": "unneeded",
    });
    const options = {
      settings: cache.settings({ HF_ENDPOINT: hub.url }),
      chooseFiles: (folder: ModelFolder) => chooseFiles(folder, { device: "cpu" }),
    };
    const { folder } = await acquireModel(MODEL, options);
    assert.deepEqual(
      [...(await openAnyFolder(folder)).files].sort(),
      Object.keys(wanted).sort(),
    );
    const before = hub.requests.length;
    await acquireModel(MODEL, options);
    assert.equal(hub.requests.length, before, "the cache has the whole model");
  });
});

Deno.test("acquireModel() fetches only the variant for the device from a repository of onnxruntime-genai", async () => {
  configureLog({ level: "error", format: "text" });
  await using hub = new FakeHub();
  await using cache = new ScratchCache();
  const files = readHubModel();
  const genai = { model: { type: "llama", context_length: 2048, vocab_size: 2048, decoder: {} } };
  const beside = {
    "tokenizer.json": files["tokenizer.json"]!,
    "tokenizer_config.json": files["tokenizer_config.json"]!,
    "genai_config.json": JSON.stringify(genai),
  };
  const place = (folder: string, graph: string) =>
    Object.entries({ ...beside, "model.onnx": files[graph]! })
      .map(([name, content]) => [`${folder}/${name}`, content] as const);
  const [cpu, gpu] = ["cpu_and_mobile/cpu-int4-rtn-block-32", "gpu/gpu-int4-rtn-block-32"];
  hub.addModel(
    ID,
    Object.fromEntries([
      ["README.md", "# A model"],
      ...place(cpu, "onnx/model_q4.onnx"),
      ...place(gpu, "onnx/model_fp16.onnx"),
    ]),
  );
  const get = async (device: "cpu" | "gpuWithF16") => {
    const { folder } = await acquireModel(MODEL, {
      settings: cache.settings({ HF_ENDPOINT: hub.url }),
      chooseFiles: (folder) => chooseFiles(folder, { device }),
      pause: () => Promise.resolve(),
    });
    return await openAnyFolder(folder);
  };
  const first = await get("cpu");
  assert.deepEqual(
    [...first.files].filter((file) => file.endsWith(".onnx")),
    [`${cpu}/model.onnx`],
  );
  assert.equal(first.settingsIn, cpu);
  assert.equal(first.config["max_position_embeddings"], 2048);
  assert.ok(!first.files.has("README.md"));
  const before = hub.requests.length;
  await get("cpu");
  assert.equal(hub.requests.length, before);
  // The cache has the variant for another device, so the hub is asked for a better one.
  const graphs = [...(await get("gpuWithF16")).files].filter((file) => file.endsWith(".onnx"));
  assert.deepEqual(graphs.sort(), [`${cpu}/model.onnx`, `${gpu}/model.onnx`]);
});
