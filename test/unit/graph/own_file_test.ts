import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { listFiles } from "../../../src/hub/list_files.ts";

const SNAPSHOT = "hub/models--ada--tiny/snapshots/12fd25f7";

/** Creates files and links in a temporary folder, which is removed at the end of the scope. */
async function layOut(
  files: readonly string[],
  links: Readonly<Record<string, string>>,
): Promise<AsyncDisposable & { path: string }> {
  const path = await Deno.makeTempDir({ prefix: "hearth-links-" });
  for (const file of [...files, ...Object.keys(links)]) {
    await Deno.mkdir(dirname(join(path, file)), { recursive: true });
  }
  for (const file of files) await Deno.writeTextFile(join(path, file), "secret");
  for (const [link, target] of Object.entries(links)) await Deno.symlink(target, join(path, link));
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

const REFUSAL = {
  name: "StartupError",
  message: /is a link that leads out of the model's folder, and such links are not followed/,
};

Deno.test("listFiles() refuses links out of the folder: files that are read, folders, chains", {
  ignore: Deno.build.os === "windows",
}, async () => {
  const cases: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    "a file": { "model/tokenizer.json": "../home/key" },
    "an absolute link": { "model/vocab.txt": "/etc/hostname" },
    "a voice": { "model/default_voice.wav": "../home/key" },
    "weights": { "model/onnx/model.onnx_data": "../../home/key" },
    "a folder": { "model/onnx": "../home" },
    "a link to a link": { "model/vocab.txt": "more.txt", "model/more.txt": "../home/key" },
    "into a folder whose name begins with the model's": {
      "model/vocab.txt": "../model-b/vocab.txt",
    },
    "another repository's blob": {
      [`${SNAPSHOT}/config.json`]: "../../../models--eve--other/blobs/1",
    },
    "out of the cache": { [`${SNAPSHOT}/config.json`]: "../../../../home/key" },
    "into a blobs folder outside a cache": {
      "blobs/1": "../home/key",
      "model/a.json": "../blobs/1",
    },
  };
  const files = ["home/key", "model/config.json", "model-b/vocab.txt"];
  for (const [name, links] of Object.entries(cases)) {
    const others = [...files, "hub/models--eve--other/blobs/1", `${SNAPSHOT}/model.onnx`];
    await using machine = await layOut(others, links);
    const [first] = Object.keys(links).filter((link) => !link.startsWith("blobs"));
    const folder = join(machine.path, first!.startsWith("hub") ? SNAPSHOT : "model");
    await assert.rejects(listFiles(folder), REFUSAL, name);
  }
});

Deno.test(
  "listFiles() follows links within the folder and to a cache's own blobs, and a folder that is a link itself",
  {
    ignore: Deno.build.os === "windows",
  },
  async () => {
    const blob = "hub/models--ada--tiny/blobs/f00d";
    await using machine = await layOut([blob, "model/config.json", "model/..data/a.json"], {
      "model/a.json": "..data/a.json",
      "model/gone.json": "../nothing",
      [`${SNAPSHOT}/config.json`]: "../../blobs/f00d",
      [`${SNAPSHOT}/onnx/model.onnx_data`]: "../../../blobs/f00d",
      "mine": "model",
      "cached": SNAPSHOT,
      "disk/hub": "../hub",
    });
    const own = ["a.json", "config.json", "gone.json"];
    assert.deepEqual([...await listFiles(join(machine.path, "model"))].sort(), own);
    assert.deepEqual([...await listFiles(join(machine.path, "mine"))].sort(), own);
    const cached = ["config.json", "onnx/model.onnx_data"];
    for (const folder of [SNAPSHOT, "cached", `disk/${SNAPSHOT}`]) {
      assert.deepEqual([...await listFiles(join(machine.path, folder))].sort(), cached, folder);
      const root = join(machine.path, folder);
      await using files = new FolderFiles(join(root, "onnx"), root);
      assert.equal(await files.size("model.onnx_data"), "secret".length);
    }
  },
);

Deno.test(
  "FolderFiles refuses weights behind a link out of the model's folder, in hidden folders too",
  {
    ignore: Deno.build.os === "windows",
  },
  async () => {
    await using machine = await layOut(["home/key", "model/data", "model/onnx/model.onnx"], {
      "model/onnx/.hidden/weights": "../../../home/key",
      "model/onnx/weights": "../../home/key",
      "model/onnx/own": "../data",
    });
    const root = join(machine.path, "model");
    await using files = new FolderFiles(join(root, "onnx"), root);
    await assert.rejects(files.size("weights"), REFUSAL);
    await assert.rejects(files.read(".hidden/weights", 0, new Uint8Array(6)), REFUSAL);
    assert.equal(await files.size("own"), "secret".length);
  },
);
