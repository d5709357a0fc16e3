/** Folders with only a background-removal graph, with rembg's names and preprocessing. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { configureLog } from "../../src/base/log.ts";
import { CapturedStderr } from "../fixtures/servers/capture_stderr.ts";
import { encodePng } from "../../src/media/image/png.ts";
import { findBareGraph, guessFamily } from "../../src/models/matting/matting_family.ts";
import { alphaOfFile, matte } from "../fixtures/images/matting.ts";
import { mattingGraph } from "../fixtures/models/matting_folder.ts";
import { openModel } from "../fixtures/engine/model.ts";

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
  "birefnet-general.onnx": { side: 1024, ...IMAGENET },
  "BiRefNet-portrait-epoch_150.onnx": { side: 1024, ...IMAGENET },
  // This is RMBG-2.0, although the name does not say so.
  "bria-rmbg.onnx": { side: 1024, ...IMAGENET },
};

Deno.test("guessFamily() uses rembg's sizes and levels, by name and by input", () => {
  for (const [file, { side, mean, std }] of Object.entries(SESSIONS)) {
    const { processor, stretches } = guessFamily(file, undefined);
    assert.deepEqual(processor["size"], { width: side, height: side }, file);
    const triple = (value: unknown) => [value, value, value].flat().slice(0, 3);
    assert.deepEqual(triple(processor["image_mean"]), mean, file);
    assert.deepEqual(triple(processor["image_std"]), std, file);
    // Each mask is stretched, by (x - least) / (most - least).
    assert.ok(stretches);
  }
  assert.equal(guessFamily("mine.onnx", 320).name, "U²-Net");
  assert.equal(guessFamily("mine.onnx", 1024).name, "IS-Net");
});

Deno.test("findBareGraph() returns a graph only if no other file describes it", () => {
  const find = (files: string[], config = {}) => findBareGraph({ files: new Set(files), config });
  assert.equal(find(["u2net.onnx", "README.txt"]), "u2net.onnx");
  assert.equal(find(["u2net.onnx", "isnet.onnx"]), undefined);
  assert.equal(find(["u2net.onnx"], { model_type: "isnet" }), undefined);
  assert.equal(find(["onnx/u2net.onnx"]), undefined);
  assert.equal(find(["gpt.onnx", "tokenizer.json"]), undefined);
});

/** An image of three bands with these grey levels, one below the other. */
function drawBands(levels: readonly number[], side = 60): Uint8Array<ArrayBuffer> {
  const data = Uint8Array.from(
    { length: 3 * side * side },
    (_, i) => levels[Math.floor(i / 3 / side / (side / levels.length))]!,
  );
  return encodePng({ width: side, height: side, channels: 3, data });
}

/**
 * Results of rembg's steps (its `normalize` with Pillow, and the stretching of masks) in the middle of bands of these
 * levels. They are relative to the brightest value of the resized image, where the Lanczos filter overshoots at edges.
 */
const BANDS: Readonly<Record<string, readonly (readonly [number[], number[]])[]>> = {
  "u2net.onnx": [
    [[0, 120, 255], [0, 174, 255]],
    [[0, 60, 120], [0, 177, 254]],
    [[0, 5, 12], [0, 23, 254]],
  ],
  "isnet-general-use.onnx": [
    [[0, 120, 255], [0, 112, 255]],
    [[0, 60, 120], [0, 112, 252]],
    [[0, 5, 12], [0, 70, 251]],
  ],
};

for (const [file, side] of [["u2net.onnx", 320], ["isnet-general-use.onnx", 64]] as const) {
  for (const layout of ["nchw", "nhwc"] as const) {
    Deno.test(`${file} (${layout}) gives rembg's masks, as a folder's only file or named by its path`, async () => {
      const folder = await Deno.makeTempDir();
      try {
        const graph = mattingGraph({ layout, width: side, height: side, ends: "sigmoid" });
        await Deno.writeFile(join(folder, file), graph);
        for (const path of [folder, join(folder, file)]) {
          await using model = await openModel(path);
          assert.equal(model.kind, "matting");
          for (const [levels, wanted] of BANDS[file]!) {
            const { png } = await matte(model, drawBands(levels), { maskOnly: true });
            const alpha = (await alphaOfFile(png)).data;
            const seen = [5, 30, 55].map((row) => alpha[row * 60 + 30]!);
            const isNear = seen.every((value, at) => Math.abs(value - wanted[at]!) <= 2);
            assert.ok(isNear, `${levels}: ${seen}, not ${wanted}`);
          }
          // A black image has no mask, and must not divide by 0.
          const { png } = await matte(model, drawBands([0, 0, 0]), { maskOnly: true });
          assert.deepEqual(new Set((await alphaOfFile(png)).data), new Set([0]));
          // If a file is named, only its graph counts.
          await Deno.writeFile(join(folder, "isnet.onnx"), new Uint8Array([1, 2, 3]));
        }
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    });
  }
}

Deno.test("a graph of any name is served with --kind matting, and the log names its family", async () => {
  const folder = await Deno.makeTempDir();
  try {
    for (
      const [name, side, family] of [["model", 320, "U²-Net"], ["mine", 64, "IS-Net"]] as const
    ) {
      const path = join(folder, `${name}.onnx`);
      await Deno.writeFile(path, mattingGraph({ width: side, height: side, ends: "sigmoid" }));
      using stderr = new CapturedStderr("warn");
      await using model = await openModel(path, { kind: "matting" });
      assert.equal(model.kind, "matting");
      const lines = stderr.lines.join("\n");
      assert.match(lines, new RegExp(`assumed="?${family}.*size=\\d+×\\d+ mean=.* std=`), lines);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
