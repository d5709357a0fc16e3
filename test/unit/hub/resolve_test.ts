import assert from "node:assert/strict";
import { join, resolve } from "node:path";
import { StartupError } from "../../../src/base/errors.ts";
import { nameModel, resolveModel } from "../../../src/hub/resolve.ts";
import { FakeHub } from "../../fixtures/servers/fake_hub.ts";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";

/** A Hugging Face cache with one model in two revisions, removed after `use`. */
async function withCache(use: (cache: string) => Promise<void>): Promise<void> {
  const cache = await Deno.makeTempDir();
  try {
    const repository = join(cache, "models--onnx-community--Qwen3-0.6B-ONNX");
    await Deno.mkdir(join(repository, "snapshots", COMMIT), { recursive: true });
    await Deno.mkdir(join(repository, "snapshots", "older"), { recursive: true });
    await Deno.mkdir(join(repository, "refs", "refs", "pr"), { recursive: true });
    await Deno.writeTextFile(join(repository, "refs", "main"), `${COMMIT}\n`);
    await Deno.writeTextFile(join(repository, "refs", "refs", "pr", "3"), "older");
    await use(cache);
  } finally {
    await Deno.remove(cache, { recursive: true });
  }
}

function snapshot(cache: string, commit: string): string {
  return join(cache, "models--onnx-community--Qwen3-0.6B-ONNX", "snapshots", commit);
}

async function failure(name: string, cache: string): Promise<string> {
  const error = await resolveModel(name, { HF_HUB_CACHE: cache }).then(
    (model) => assert.fail(`found ${model.folder}`),
    (error: unknown) => error,
  );
  assert.ok(error instanceof StartupError);
  return error.message;
}

Deno.test("resolveModel() finds a built-in model by name", async () => {
  const model = await resolveModel("hearth-demo-chat", {});
  assert.equal(model.id, "hearth-demo-chat");
  assert.equal(model.ownedBy, "hearth");
  assert.deepEqual(model.aliases, ["hearth/hearth-demo-chat"]);
  assert.ok((await Deno.stat(join(model.folder, "config.json"))).isFile);
});

Deno.test("resolveModel() finds a folder by relative and absolute path, with its name as id", async () => {
  const folder = await Deno.makeTempDir({ dir: ".", prefix: "My_Model-" });
  try {
    for (const name of [folder, resolve(folder), `${folder}/`]) {
      const model = await resolveModel(name, {});
      assert.equal(model.folder, resolve(folder));
      assert.equal(model.id, folder.replace(/^.*\//, ""));
      assert.deepEqual(model.aliases, [model.id.toLowerCase().replaceAll("_", "-")]);
      assert.equal(model.ownedBy, "local");
    }
  } finally {
    await Deno.remove(folder);
  }
});

Deno.test("resolveModel() finds a catalogue alias and a hub id in the cache, under the hub's id", async () => {
  await withCache(async (cache) => {
    for (const name of ["qwen3-0.6b", "Qwen3-0.6B", "onnx-community/Qwen3-0.6B-ONNX"]) {
      assert.deepEqual(await resolveModel(name, { HF_HUB_CACHE: cache }), {
        id: "onnx-community/Qwen3-0.6B-ONNX",
        aliases: ["qwen3-0.6b", "Qwen3-0.6B-ONNX", "qwen3-0.6b-onnx"],
        ownedBy: "onnx-community",
        folder: snapshot(cache, COMMIT),
      });
    }
  });
});

Deno.test("resolveModel() finds a revision by branch, ref path and commit", async () => {
  await withCache(async (cache) => {
    const id = "onnx-community/Qwen3-0.6B-ONNX";
    for (
      const [revision, commit] of [["main", COMMIT], ["refs/pr/3", "older"], [COMMIT, COMMIT]]
    ) {
      const model = await resolveModel(`${id}@${revision}`, { HF_HUB_CACHE: cache });
      assert.equal(model.folder, snapshot(cache, commit ?? ""));
    }
    assert.match(
      await failure(`${id}@v2`, cache),
      /Qwen3-0\.6B-ONNX@v2 .*pull onnx-community\/Qwen3-0\.6B-ONNX@v2$/s,
    );
  });
});

Deno.test("resolveModel() gives a snapshot folder of the cache its hub id", async () => {
  await withCache(async (cache) => {
    const model = await resolveModel(snapshot(cache, COMMIT), {});
    assert.equal(model.id, "onnx-community/Qwen3-0.6B-ONNX");
  });
});

Deno.test("resolveModel() reports what it looked for and where, and similar names", async () => {
  await withCache(async (cache) => {
    const message = await failure("qwen3-0.7b", cache);
    assert.match(message, /There is no model "qwen3-0\.7b"/);
    assert.match(message, /built-in model \(there is .*hearth-demo-chat/);
    assert.ok(message.includes(`a folder at ${resolve("qwen3-0.7b")}`));
    assert.match(message, /an alias of the catalogue/);
    assert.match(message, /Similar names: qwen3-0\.6b/);
  });
});

Deno.test("resolveModel() explains how to fetch a model that is not in the cache", async () => {
  await withCache(async (cache) => {
    const message = await failure("whisper-tiny", cache);
    assert.ok(message.includes(join(cache, "models--onnx-community--whisper-tiny")));
    assert.match(message, /pull onnx-community\/whisper-tiny$/);
    assert.doesNotMatch(message, /Similar names/);
  });
});

Deno.test("resolveModel() refuses a path that is neither a folder nor the file of a graph", async () => {
  await withCache(async (cache) => {
    assert.match(await failure("./nowhere", cache), /^There is no folder .*nowhere; a model is/);
    assert.match(await failure("LICENSE.onnx", cache), /^There is no file /);
    const file = join(cache, "model.txt");
    await Deno.writeTextFile(file, "");
    assert.match(await failure(file, cache), /model\.txt is a file; a model is a folder/);
  });
});

Deno.test("nameModel() accepts the URL of a model's page", async () => {
  const names = [
    ["https://huggingface.co/ada/engine", "ada/engine", "main"],
    ["http://huggingface.co/ada/engine/", "ada/engine", "main"],
    ["https://www.huggingface.co/ada/engine?library=transformers.js#usage", "ada/engine", "main"],
    ["huggingface.co/ada/engine", "ada/engine", "main"],
    ["HF.co/ada/engine", "ada/engine", "main"],
    ["hf.co/ada/engine@v2", "ada/engine", "v2"],
    ["hf://ada/engine", "ada/engine", "main"],
    ["https://huggingface.co/ada/engine/tree/main/onnx", "ada/engine", "main"],
    ["https://huggingface.co/ada/engine/tree/refs%2Fpr%2F3", "ada/engine", "refs/pr/3"],
    ["https://huggingface.co/ada/engine/blob/v2/onnx/model.onnx", "ada/engine", "v2"],
    ["https://hf-mirror.example/ada/engine", "ada/engine", "main"],
  ] as const;
  const environment = { HF_ENDPOINT: "https://hf-mirror.example" };
  for (const [given, id, revision] of names) {
    const model = await nameModel(given, environment);
    assert.ok("hubId" in model, given);
    assert.deepEqual([model.id, model.hubId.revision], [id, revision], given);
  }
  const others = ["https://huggingface.co/datasets/ada/words", "https://ollama.com/library/llama3"];
  for (const given of [...others, "https://huggingface.co/ada", "hf.co/bert-base-uncased"]) {
    await assert.rejects(nameModel(given, {}), (error) => {
      assert.ok(error instanceof StartupError);
      assert.match(error.message, /: want https:\/\/huggingface\.co\/owner\/name/);
      return true;
    });
  }
});

Deno.test("nameModel() explains for names of Ollama and llama.cpp that GGUF is not served, and suggests models", async () => {
  const names = [
    ["qwen3:0.6b", "onnx-community/Qwen3-0.6B-ONNX"],
    ["llama3", "llama-3.2-1b (onnx-community/Llama-3.2-1B-Instruct)"],
    ["llama3.2:1b-instruct-q8_0", "onnx-community/Llama-3.2-1B-Instruct"],
    ["gemma3:270m", "onnx-community/gemma-3-270m-it-ONNX"],
    ["smollm2:135m", "HuggingFaceTB/SmolLM2-135M-Instruct"],
    ["gpt-oss:20b", "onnx-community/gpt-oss-20b-ONNX"],
    ["qwen2.5vl:3b", "onnx-community/Qwen2.5-VL-3B-Instruct-ONNX"],
    ["bge-m3:latest", "Xenova/bge-m3"],
    ["embeddinggemma:300m", "onnx-community/embeddinggemma-300m-ONNX"],
    ["Qwen3-0.6B-Q4_K_M.gguf", "onnx-community/Qwen3-0.6B-ONNX"],
    ["./models/gemma-3-270m-it-qat-UD-IQ3_XXS.gguf", "onnx-community/gemma-3-270m-it-ONNX"],
    ["hf.co/unsloth/Qwen3-0.6B-GGUF:Q4_K_M", "onnx-community/Qwen3-0.6B-ONNX"],
    ["deepseek-r1:7b", "https://huggingface.co/models?library=transformers.js"],
    ["x.gguf", "https://huggingface.co/models?library=transformers.js"],
  ] as const;
  for (const [name, advice] of names) {
    const message = await nameModel(name, {}).then(() => "found", ({ message }) => message);
    assert.match(message, /GGUF.*Hearth serves ONNX/s, name);
    const lastLine = message.split("\n").at(-1);
    assert.ok(lastLine.includes(advice), `${name}: ${message}`);
  }
  // Another size is another model, and a reranker is not an embedding model.
  const other = await nameModel("qwen3:8b", {}).catch(({ message }) => message);
  assert.match(other, /Models of this family in the catalogue: qwen3-0\.6b/);
  const ranks = await nameModel("mxbai-embed-large:latest", {}).catch(({ message }) => message);
  assert.doesNotMatch(ranks, /rerank/);
});

Deno.test("nameModel() asks the hub for models that the catalogue lacks, if allowed", async () => {
  await using hub = new FakeHub();
  hub.addModel("onnx-community/Phi-4-mini-ONNX", { "config.json": "{}" });
  const environment = { HF_ENDPOINT: hub.url };
  const ask = (more: Record<string, string>, asksHub: boolean) =>
    nameModel("phi4:mini", { ...environment, ...more }, { asksHub }).catch(({ message }) =>
      message
    );
  assert.doesNotMatch(await ask({}, false), /Phi/);
  assert.doesNotMatch(await ask({ HF_HUB_OFFLINE: "1" }, true), /Phi/);
  assert.equal(hub.requests.length, 0);
  assert.match(await ask({}, true), /similar name on the hub: onnx-community\/Phi-4-mini-ONNX\./);
  assert.match(
    await ask({ HF_ENDPOINT: "http://127.0.0.1:9" }, true),
    /Look for an ONNX version of it/,
  );
});
