import assert from "node:assert/strict";
import { join } from "node:path";
import { openFolder } from "../../../src/hub/model_folder.ts";

Deno.test("openFolder() refuses a FIFO, a socket and a device in place of a file, at once", {
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
