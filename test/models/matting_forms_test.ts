/** Background-removal graphs and processors in the forms that exporters write. */
import assert from "node:assert/strict";
import { configureLog } from "../../src/base/log.ts";
import type { Pixels } from "../../src/media/pixels.ts";
import { encodePng } from "../../src/media/image/png.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { alphaOfFile, matte } from "../fixtures/images/matting.ts";
import {
  LOGIT_SCALE,
  MattingFolder,
  mattingGraph,
  type MattingGraphOptions,
} from "../fixtures/models/matting_folder.ts";
import { openModel } from "../fixtures/engine/model.ts";

// Intentional failures would fill the tests' output.
configureLog({ level: "error", format: "text" });

const SIZE = 24;
const PROCESSOR = {
  do_resize: true,
  size: { width: SIZE, height: SIZE },
  do_normalize: true,
  image_mean: 0.5,
  image_std: 0.5,
};

/** An image of all grey levels in the model's own size, so that nothing is resized. */
function greyRamp(): Pixels {
  const data = new Uint8Array(3 * SIZE * SIZE);
  for (let i = 0; i < SIZE * SIZE; i++) data.fill(i % 256, 3 * i, 3 * i + 3);
  return { width: SIZE, height: SIZE, channels: 3, data };
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

/** The logit of a level after the processor above. */
function getLogit(level: number): number {
  return LOGIT_SCALE * (level / 127.5 - 1);
}

async function getChannelLevels(
  graph: MattingGraphOptions,
  config: Record<string, unknown> = {},
): Promise<Uint8Array> {
  const options = { config: { model_type: "isnet", ...config }, processor: PROCESSOR };
  await using folder = await MattingFolder.create(mattingGraph(graph), options);
  await using model = await openModel(folder.path);
  const { png } = await matte(model, encodePng(greyRamp()), { maskOnly: true });
  return (await alphaOfFile(png)).data;
}

function assertAlpha(
  got: Uint8Array,
  computeAlpha: (level: number) => number,
  within = 0.51,
): void {
  got.forEach((alpha, i) => {
    const want = 255 * computeAlpha(i % 256);
    assert.ok(Math.abs(alpha - want) <= within, `${alpha} for level ${i % 256}, not ${want}`);
  });
}

const PROBABILITY = (level: number) => sigmoid(getLogit(level));

const FORMS: Readonly<Record<string, [MattingGraphOptions, Record<string, unknown>?]>> = {
  "a sigmoid at its end": [{}],
  "logits": [{ ends: "logits", outputName: "logits" }],
  "last nodes that do not reveal whether it returns logits": [{ ends: "scaled" }],
  "interleaved channels": [{ layout: "nhwc", outputName: "activation" }],
  "interleaved channels, and logits": [{ layout: "nhwc", ends: "logits" }],
  "a fixed size and batch": [{ batch: 1, height: SIZE, width: SIZE, outputName: "d0" }],
  "other outputs after a mask with a meaningless name": [{
    outputName: "1959",
    after: ["1960", "1961"],
  }],
  "BiRefNet's coarser scales before its mask": [
    { outputName: "4380", before: ["4001", "4200"], ends: "logits" },
    { model_type: "birefnet" },
  ],
  "a mask that config.json names": [
    { outputName: "activation_10", before: ["alphas"] },
    { output_name: "activation_10" },
  ],
};

for (const [name, [graph, config]] of Object.entries(FORMS)) {
  Deno.test(`MattingModel accepts a graph with ${name}`, async () => {
    assertAlpha(await getChannelLevels(graph, config), PROBABILITY);
  });
}

Deno.test("MattingModel accepts a graph of float16", async () => {
  assertAlpha(await getChannelLevels({ dtype: "float16" }), PROBABILITY, 1.5);
  assertAlpha(await getChannelLevels({ dtype: "float16", ends: "logits" }), PROBABILITY, 1.5);
});

Deno.test("MattingModel uses alphas unchanged if the graph already returns them", async () => {
  const clipped = (level: number) => Math.min(1, Math.max(0, getLogit(level)));
  assertAlpha(await getChannelLevels({ ends: "clip" }), clipped);
});

Deno.test("MattingModel stretches the masks of families that require it", async () => {
  const [lowest, highest] = [PROBABILITY(0), PROBABILITY(255)];
  const stretched = (level: number) => (PROBABILITY(level) - lowest) / (highest - lowest);
  const config = { model_type: "SegformerForSemanticSegmentation", architectures: ["BriaRMBG"] };
  assertAlpha(await getChannelLevels({ outputName: "output" }, config), stretched);
  assertAlpha(await getChannelLevels({ ends: "logits" }, { model_type: "ben" }), stretched);
  assertAlpha(await getChannelLevels({ ends: "scaled" }, { model_type: "ben" }), stretched);
});

Deno.test("MattingModel does not stretch noise into a subject", async () => {
  const options = { config: { architectures: ["BriaRMBG"] }, processor: PROCESSOR };
  await using folder = await MattingFolder.create(mattingGraph(), options);
  await using model = await openModel(folder.path, { kind: "matting" });
  const dark = greyRamp();
  dark.data.forEach((_, i) => dark.data[i] = Math.floor(i / 3) % 16);
  const { png } = await matte(model, encodePng(dark), { maskOnly: true });
  assert.ok((await alphaOfFile(png)).data.every((alpha) => alpha <= 3));
});

Deno.test("MattingModel keeps the aspect ratio and adds a border, if its processor says so", async () => {
  const processors = {
    "MODNet's": { size: { shortest_edge: 32 }, size_divisibility: 8 },
    "with a border": {
      size: { longest_edge: 40 },
      do_pad: true,
      pad_size: { width: 48, height: 48 },
    },
  };
  for (const [name, processor] of Object.entries(processors)) {
    const options = { processor: { ...PROCESSOR, ...processor } };
    await using folder = await MattingFolder.create(mattingGraph(), options);
    await using model = await openModel(folder.path);
    // Bright left of the middle: the position of the mask's edge shows whether it is correct.
    const [width, height] = [90, 60];
    const data = new Uint8Array(3 * width * height);
    for (let i = 0; i < width * height; i++) {
      data.fill(i % width < width / 2 ? 250 : 5, 3 * i, 3 * i + 3);
    }
    const file = encodePng({ width, height, channels: 3, data });
    const { png } = await matte(model, file, { maskOnly: true });
    const alpha = (await alphaOfFile(png)).data;
    for (let i = 0; i < alpha.length; i++) {
      const fromEdge = i % width + 0.5 - width / 2;
      if (Math.abs(fromEdge) < 4) continue;
      assert.ok(fromEdge < 0 ? alpha[i]! > 250 : alpha[i]! < 5, `${name}: ${alpha[i]} at ${i}`);
    }
  }
});

Deno.test("MattingModel refuses graphs without masks, and processors that crop", async () => {
  const wrong: [Uint8Array, RegExp][] = [
    [mattingGraph({ height: 10, width: 10, layout: "nhwc", batch: 2 }), /cannot be used/],
    [await Deno.readFile(`${findModelFolder("hearth-demo-embed")}/onnx/model.onnx`), /one input/],
  ];
  for (const [graph, message] of wrong) {
    await using folder = await MattingFolder.create(graph, { processor: PROCESSOR });
    await assert.rejects(openModel(folder.path), { name: "StartupError", message });
  }
  const cropping = { ...PROCESSOR, do_center_crop: true };
  await using folder = await MattingFolder.create(mattingGraph(), { processor: cropping });
  await assert.rejects(openModel(folder.path), { message: /do_center_crop/ });
});

Deno.test("MattingModel uses its family's preprocessing if the folder has no processor", async () => {
  const graph = mattingGraph({ height: SIZE, width: SIZE });
  await using folder = await MattingFolder.create(graph, { config: { model_type: "modnet" } });
  await using model = await openModel(folder.path);
  const { png } = await matte(model, encodePng(greyRamp()), { maskOnly: true });
  // MODNet's own levels equal those of the processor above.
  assertAlpha((await alphaOfFile(png)).data, PROBABILITY);
});

Deno.test("MattingModel runs images one by one if a graph turns out to accept no batches", async () => {
  for (const graph of [{ onlyOne: true }, { batch: 1 }]) {
    const options = { processor: PROCESSOR };
    await using folder = await MattingFolder.create(mattingGraph(graph), options);
    await using model = await openModel(folder.path);
    const file = encodePng(greyRamp());
    const results = await Promise.all(
      Array.from({ length: 4 }, () => matte(model, file.slice(), { maskOnly: true })),
    );
    for (const { png } of results) assertAlpha((await alphaOfFile(png)).data, PROBABILITY);
  }
});
