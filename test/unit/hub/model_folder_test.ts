import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { listFiles } from "../../../src/hub/list_files.ts";
import { openFolder } from "../../../src/hub/model_folder.ts";

Deno.test("openFolder() immediately refuses a FIFO, a socket and a device in place of a file", {
  ignore: Deno.build.os === "windows",
}, async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(join(folder, "config.json"), "{}");
    await openFolder(folder);
    const path = join(folder, "model.onnx");
    const refusal = {
      name: "StartupError",
      message: /model\.onnx is a FIFO, a socket or a device/,
    };
    await new Deno.Command("mkfifo", { args: [path] }).output();
    await assert.rejects(openFolder(folder), refusal);
    await Deno.remove(path);
    await Deno.symlink("/dev/zero", path);
    await assert.rejects(openFolder(folder), refusal);
    await Deno.remove(path);
    using _socket = Deno.listen({ transport: "unix", path });
    await assert.rejects(openFolder(folder), refusal);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("openFolder() refuses a link only in place of a file that it reads", {
  ignore: Deno.build.os === "windows",
}, async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(join(folder, "config.json"), "{}");
    // A virtual environment next to the model has such a link.
    await Deno.symlink(Deno.execPath(), join(folder, "python3"));
    await openFolder(folder);
    await Deno.symlink("/etc/hostname", join(folder, "vocab.txt"));
    await assert.rejects(openFolder(folder), /vocab\.txt is a link that leads out/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("listFiles() lists four levels, without hidden or deeper files", async () => {
  const path = await Deno.makeTempDir();
  try {
    for (
      const file of [
        "config.json",
        "onnx/model.onnx",
        "onnxruntime/gpu/int4/model.onnx",
        "a/b/c/d/model.onnx",
        "a/b/c/d/e/model.onnx",
        ".git/objects/ab/model.onnx",
        "a/.cache/model.onnx",
      ]
    ) {
      await Deno.mkdir(dirname(join(path, file)), { recursive: true });
      await Deno.writeTextFile(join(path, file), "");
    }
    assert.deepEqual([...await listFiles(path)].sort(), [
      "a/b/c/d/model.onnx",
      "config.json",
      "onnx/model.onnx",
      "onnxruntime/gpu/int4/model.onnx",
    ]);
  } finally {
    await Deno.remove(path, { recursive: true });
  }
});
