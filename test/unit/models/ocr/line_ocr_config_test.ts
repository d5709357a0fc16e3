import assert from "node:assert/strict";
import { join } from "node:path";
import { StartupError } from "../../../../src/base/errors.ts";
import { openFolder } from "../../../../src/hub/model_folder.ts";
import { identifyFamily } from "../../../../src/models/load/identify_family.ts";
import { readLineOcrConfig } from "../../../../src/models/ocr/line_ocr.ts";

const LEVELS = { image_mean: [0.5, 0.25, 0], image_std: [0.5, 0.5, 1] };
const DETECTION = {
  file: "onnx/det.onnx",
  multiple_of: 32,
  max_side: 960,
  threshold: 0.3,
  box_threshold: 0.5,
  unclip_ratio: 1.6,
  ...LEVELS,
};
const RECOGNITION = {
  file: "onnx/rec.onnx",
  dict: "dict/en.txt",
  height: 32,
  min_width: 320,
  blank_id: 0,
  append_space: true,
  ...LEVELS,
};
const CONFIG = { task: "ocr", detection: DETECTION, recognition: { en: RECOGNITION } };

async function withConfig(config: object, use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "hearth-ocr-" });
  try {
    for (const name of ["onnx", "dict"]) await Deno.mkdir(join(folder, name));
    for (const name of ["onnx/det.onnx", "onnx/rec.onnx"]) {
      await Deno.writeFile(join(folder, name), new Uint8Array(1));
    }
    await Deno.writeTextFile(join(folder, "dict/en.txt"), "a\r\n \r\né\r\n");
    await Deno.writeTextFile(join(folder, "config.json"), JSON.stringify(config));
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("readLineOcrConfig() reads dictionaries with blank and space, and levels by channel", () =>
  withConfig({ ...CONFIG, channel_order: "bgr" }, async (path) => {
    const folder = await openFolder(path);
    assert.equal(identifyFamily(folder).name, "detection and recognition of lines");
    const { detection, classification, recognition: [recognition] } = await readLineOcrConfig(
      folder,
    );
    assert.equal(classification, undefined);
    assert.equal(recognition!.name, "en");
    assert.deepEqual(recognition!.characters, ["", "a", " ", "é", " "]);
    const { scale, offset, channels } = detection.levels;
    assert.deepEqual(scale, [2 / 255, 2 / 255, 1 / 255]);
    assert.deepEqual(offset, [-1, -0.5, 0]);
    assert.deepEqual(channels, [2, 1, 0]);
  }));

const WRONG: readonly (readonly [RegExp, object])[] = [
  [/detection\.max_side: want a number, saw undefined/, {
    ...CONFIG,
    detection: { ...DETECTION, max_side: undefined },
  }],
  [/recognition\.en\.file: want a file of the folder, saw "onnx\/no\.onnx"/, {
    ...CONFIG,
    recognition: { en: { ...RECOGNITION, file: "onnx/no.onnx" } },
  }],
  [/recognition\.en\.image_std: want three numbers, saw \[1\]/, {
    ...CONFIG,
    recognition: { en: { ...RECOGNITION, image_std: [1] } },
  }],
  [/recognition: want at least one recogniser/, { ...CONFIG, recognition: {} }],
  [/classification\.file: want a file of the folder, saw undefined/, {
    ...CONFIG,
    classification: LEVELS,
  }],
];

for (const [message, config] of WRONG) {
  Deno.test(`readLineOcrConfig() refuses: ${message.source.replaceAll("\\", "")}`, () =>
    withConfig(config, async (path) => {
      await assert.rejects(readLineOcrConfig(await openFolder(path)), (error: unknown) => {
        assert.ok(error instanceof StartupError);
        assert.match(error.message, message);
        return true;
      });
    }));
}
