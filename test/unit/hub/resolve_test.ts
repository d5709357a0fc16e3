import assert from "node:assert/strict";
import { join, resolve } from "node:path";
import { StartupError } from "../../../src/errors.ts";
import { resolveModel } from "../../../src/hub/resolve.ts";

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

Deno.test("resolveModel() takes a folder by relative and absolute path, and its name as id", async () => {
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

Deno.test("resolveModel() takes a revision by branch, ref path and commit", async () => {
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

Deno.test("resolveModel() says what it looked for, where, and what is near", async () => {
  await withCache(async (cache) => {
    const message = await failure("qwen3-0.7b", cache);
    assert.match(message, /There is no model "qwen3-0\.7b"/);
    assert.match(message, /built-in model \(there is .*hearth-demo-chat/);
    assert.ok(message.includes(`a folder at ${resolve("qwen3-0.7b")}`));
    assert.match(message, /an alias of the catalogue/);
    assert.match(message, /Near names: qwen3-0\.6b/);
  });
});

Deno.test("resolveModel() says how to fetch a model that the cache has not got", async () => {
  await withCache(async (cache) => {
    const message = await failure("whisper-tiny", cache);
    assert.ok(message.includes(join(cache, "models--onnx-community--whisper-tiny")));
    assert.match(message, /pull onnx-community\/whisper-tiny$/);
    assert.doesNotMatch(message, /Near names/);
  });
});

Deno.test("resolveModel() looks for a path as a folder alone", async () => {
  await withCache(async (cache) => {
    assert.match(await failure("./nowhere", cache), /^There is no folder .*nowhere; a model is/);
    assert.match(await failure("LICENSE.onnx", cache), /^There is no folder /);
    const file = join(cache, "model.onnx");
    await Deno.writeTextFile(file, "");
    assert.match(await failure(file, cache), /model\.onnx is a file; a model is a folder/);
  });
});
