/** Background-removal graphs alone in a folder, named as rembg names them, with rembg's preprocessing. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { configureLog } from "../../src/base/log.ts";
import { encodePng } from "../../src/media/png.ts";
import { bareFamilyOf, findBareGraph } from "../../src/models/matting/matting_family.ts";
import { alphaOfFile, matte } from "../fixtures/matting.ts";
import { LOGIT_SCALE, mattingGraph } from "../fixtures/matting_folder.ts";
import { openModel } from "../fixtures/model.ts";

configureLog({ level: "error", format: "text" });

const IMAGENET = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
/** Sizes, means and deviations of rembg's sessions. */
const SESSIONS = {
  "u2net.onnx": { side: 320, ...IMAGENET },
  "u2netp.onnx": { side: 320, ...IMAGENET },
  "u2net_human_seg.onnx": { side: 320, ...IMAGENET },
  "silueta.onnx": { side: 320, ...IMAGENET },
  "isnet-general-use.onnx": { side: 1024, mean: [0.5, 0.5, 0.5], std: [1, 1, 1] },
  "isnet.onnx": { side: 1024, mean: [0.5, 0.5, 0.5], std: [1, 1, 1] },
  "isnet-anime.onnx": { side: 1024, mean: IMAGENET.mean, std: [1, 1, 1] },
};

Deno.test("bareFamilyOf() has rembg's sizes and levels, by name and by input", () => {
  for (const [file, { side, mean, std }] of Object.entries(SESSIONS)) {
    const { processor, stretches } = bareFamilyOf(file, undefined);
    assert.deepEqual(processor["size"], { width: side, height: side }, file);
    const triple = (value: unknown) => [value, value, value].flat().slice(0, 3);
    assert.deepEqual(triple(processor["image_mean"]), mean, file);
    assert.deepEqual(triple(processor["image_std"]), std, file);
    // Each mask is stretched, by (x - least) / (most - least).
    assert.ok(stretches);
  }
  assert.equal(bareFamilyOf("mine.onnx", 320).name, "U²-Net");
  assert.equal(bareFamilyOf("mine.onnx", 1024).name, "IS-Net");
});

Deno.test("findBareGraph() takes a graph for bare only where nothing else says what it is", () => {
  const find = (files: string[], config = {}) => findBareGraph({ files: new Set(files), config });
  assert.equal(find(["u2net.onnx", "README.txt"]), "u2net.onnx");
  assert.equal(find(["u2net.onnx", "isnet.onnx"]), undefined);
  assert.equal(find(["u2net.onnx"], { model_type: "isnet" }), undefined);
  assert.equal(find(["onnx/u2net.onnx"]), undefined);
  assert.equal(find(["gpt.onnx", "tokenizer.json"]), undefined);
});

for (const [file, side] of [["u2net.onnx", 320], ["isnet-general-use.onnx", 64]] as const) {
  Deno.test(`a folder that holds ${file} alone removes backgrounds as rembg does`, async () => {
    const folder = await Deno.makeTempDir();
    try {
      const graph = mattingGraph({ width: side, height: side, ends: "sigmoid" });
      await Deno.writeFile(join(folder, file), graph);
      await using model = await openModel(folder);
      assert.equal(model.kind, "matting");
      // Three bands: black, grey, white.
      const [levels, height] = [[0, 120, 255], 60];
      const data = Uint8Array.from(
        { length: 3 * height * height },
        (_, i) => levels[Math.floor(i / 3 / height / 20)]!,
      );
      const image = encodePng({ width: height, height, channels: 3, data });
      const { png } = await matte(model, image, { maskOnly: true });
      const alpha = (await alphaOfFile(png)).data;
      const { mean, std } = SESSIONS[file];
      const maskOf = (level: number) => {
        const sum = mean.reduce((total, each, i) => total + (level / 255 - each) / std[i]!, 0);
        return 1 / (1 + Math.exp(-LOGIT_SCALE * sum / 3));
      };
      const [least, middle, most] = levels.map(maskOf) as [number, number, number];
      const want = Math.round(255 * (middle - least) / (most - least));
      assert.deepEqual([alpha[5 * height + 30], alpha[55 * height + 30]], [0, 255]);
      assert.ok(
        Math.abs(alpha[30 * height + 30]! - want) <= 2,
        `${alpha[30 * height + 30]}, not ${want}`,
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}
