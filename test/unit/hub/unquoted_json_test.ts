import assert from "node:assert/strict";
import { join } from "node:path";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { readAnyJson } from "../../../src/hub/model_folder.ts";

const SECRET = "s3cret";

Deno.test("readAnyJson() reports the error in a file without quoting it", async () => {
  const folder = Deno.makeTempDirSync();
  const texts = [
    SECRET,
    `{"${SECRET}": ${SECRET}}`,
    `{"a": "${SECRET}\n"}`,
    `{"a": 1} ${SECRET}`,
    `["${SECRET}" `,
    `root:x:0:0:${SECRET}`,
    "",
  ];
  for (const text of texts) {
    Deno.writeTextFileSync(join(folder, "config.json"), text);
    await assert.rejects(readAnyJson(folder, "config.json"), ({ message }: Error) => {
      assert.match(message, /config\.json cannot be read: it is not valid JSON/);
      assert.doesNotMatch(message, /s3|root/);
      return true;
    }, text);
  }
  Deno.removeSync(folder, { recursive: true });
});

Deno.test("readAnyJson() reads what Python and editors write: infinities, NaN, a byte order mark", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    const text =
      '\ufeff{"limit": [0.0, Infinity, -Infinity], "a": NaN, "Infinity": "\\"NaN -Infinity"}';
    Deno.writeTextFileSync(join(folder, "config.json"), text);
    const value = { limit: [0, Infinity, -Infinity], a: null, Infinity: '"NaN -Infinity' };
    assert.deepEqual(await readAnyJson(folder, "config.json"), value);
    Deno.writeTextFileSync(join(folder, "config.json"), '{"a": InfinityNaN}');
    await assert.rejects(readAnyJson(folder, "config.json"), /it is not valid JSON/);
    // Long strings that are not closed must not take quadratic time.
    for (const unit of ['\\"', "\\", '"\\\n', "a", "Infinity"]) {
      Deno.writeTextFileSync(
        join(folder, "config.json"),
        `{"a": NaN, "b": "${unit.repeat(2 ** 20)}`,
      );
      await assert.rejects(readAnyJson(folder, "config.json"), /it is not valid JSON/);
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("readAnyJson() and readModel() refuse a pointer of Git LFS, and name the command that fetches the file", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"0".repeat(64)}\n`;
    for (const name of ["tokenizer.json", "model.onnx"]) {
      Deno.writeTextFileSync(join(folder, name), `${pointer}size 2224241\n`);
    }
    const message = /is only a pointer of Git LFS.* "git lfs pull"/;
    await assert.rejects(readAnyJson(folder, "tokenizer.json"), { name: "StartupError", message });
    await using files = new FolderFiles(folder);
    await assert.rejects(readModel(files, "model.onnx"), { name: "StartupError", message });
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
