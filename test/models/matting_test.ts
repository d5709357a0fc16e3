/** Background-removal models of every form, cancelled, together, and of pictures of every size. */
import assert from "node:assert/strict";
import { CpuBackend } from "../../src/backend/cpu.ts";
import { WebGpuBackend } from "../../src/backend/webgpu.ts";
import { WebGpuImages } from "../../src/backend/webgpu_images.ts";
import { decodeImage } from "../../src/media/image.ts";
import type { Pixels } from "../../src/media/pixels.ts";
import { encodePng } from "../../src/media/png.ts";
import type { MattingModel } from "../../src/models/matting.ts";
import { findModelFolder } from "../fixtures/goldens.ts";
import { gpuTest } from "../fixtures/gpu.ts";
import { alphaOfFile, compareAlpha, discFile, discPicture, matte } from "../fixtures/matting.ts";
import {
  LOGIT_SCALE,
  MattingFolder,
  mattingGraph,
  type MattingGraphOptions,
} from "../fixtures/matting_folder.ts";
import { openModel } from "../fixtures/model.ts";
import { Random } from "../unit/engine/random.ts";

const DEMO = findModelFolder("hearth-demo-matting")!;
const SIZE = 24;
const PROCESSOR = {
  do_resize: true,
  size: { width: SIZE, height: SIZE },
  do_normalize: true,
  image_mean: 0.5,
  image_std: 0.5,
};

/** Grey levels of every value, in a picture of the model's own size: nothing is resized. */
function greyRamp(): Pixels {
  const data = new Uint8Array(3 * SIZE * SIZE);
  for (let i = 0; i < SIZE * SIZE; i++) data.fill(i % 256, 3 * i, 3 * i + 3);
  return { width: SIZE, height: SIZE, channels: 3, data };
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

/** Of what a level becomes by the processor above. */
function logitOf(level: number): number {
  return LOGIT_SCALE * (level / 127.5 - 1);
}

async function levelsOf(
  graph: MattingGraphOptions,
  config: Record<string, unknown> = {},
): Promise<Uint8Array> {
  const options = { config: { model_type: "isnet", ...config }, processor: PROCESSOR };
  await using folder = await MattingFolder.create(mattingGraph(graph), options);
  await using model = await openModel(folder.path);
  const { png } = await matte(model, await encodePng(greyRamp()), { maskOnly: true });
  return (await alphaOfFile(png)).data;
}

function assertAlpha(got: Uint8Array, alphaOf: (level: number) => number, within = 0.51): void {
  got.forEach((alpha, i) => {
    const want = 255 * alphaOf(i % 256);
    assert.ok(Math.abs(alpha - want) <= within, `${alpha} for level ${i % 256}, not ${want}`);
  });
}

const PROBABILITY = (level: number) => sigmoid(logitOf(level));

const FORMS: Readonly<Record<string, [MattingGraphOptions, Record<string, unknown>?]>> = {
  "a sigmoid at its end": [{}],
  "logits": [{ ends: "logits", outputName: "logits" }],
  "nodes that do not tell its values": [{ ends: "scaled" }],
  "channels side by side": [{ layout: "nhwc", outputName: "activation" }],
  "channels side by side, and logits": [{ layout: "nhwc", ends: "logits" }],
  "a fixed size and batch": [{ batch: 1, height: SIZE, width: SIZE, outputName: "d0" }],
  "other outputs behind a mask without a telling name": [{
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
  Deno.test(`MattingModel takes a graph with ${name}`, async () => {
    assertAlpha(await levelsOf(graph, config), PROBABILITY);
  });
}

Deno.test("MattingModel takes a graph of float16", async () => {
  assertAlpha(await levelsOf({ dtype: "float16" }), PROBABILITY, 1.5);
  assertAlpha(await levelsOf({ dtype: "float16", ends: "logits" }), PROBABILITY, 1.5);
});

Deno.test("MattingModel takes alphas that were never logits as they are", async () => {
  const clipped = (level: number) => Math.min(1, Math.max(0, logitOf(level)));
  assertAlpha(await levelsOf({ ends: "clip" }), clipped);
});

Deno.test("MattingModel stretches the masks of families whose authors do", async () => {
  const [lowest, highest] = [PROBABILITY(0), PROBABILITY(255)];
  const stretched = (level: number) => (PROBABILITY(level) - lowest) / (highest - lowest);
  const config = { model_type: "SegformerForSemanticSegmentation", architectures: ["BriaRMBG"] };
  assertAlpha(await levelsOf({ outputName: "output" }, config), stretched);
  assertAlpha(await levelsOf({ ends: "logits" }, { model_type: "ben" }), stretched);
  assertAlpha(await levelsOf({ ends: "scaled" }, { model_type: "ben" }), stretched);
});

Deno.test("MattingModel does not stretch noise into a subject", async () => {
  const options = { config: { architectures: ["BriaRMBG"] }, processor: PROCESSOR };
  await using folder = await MattingFolder.create(mattingGraph(), options);
  await using model = await openModel(folder.path, { kind: "matting" });
  const dark = greyRamp();
  dark.data.forEach((_, i) => dark.data[i] = Math.floor(i / 3) % 16);
  const { png } = await matte(model, await encodePng(dark), { maskOnly: true });
  assert.ok((await alphaOfFile(png)).data.every((alpha) => alpha <= 3));
});

Deno.test("MattingModel keeps the sides' ratio and puts a border, where its processor says so", async () => {
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
    // Bright left of the middle: where the mask's edge falls shows whether it is in place.
    const [width, height] = [90, 60];
    const data = new Uint8Array(3 * width * height);
    for (let i = 0; i < width * height; i++) {
      data.fill(i % width < width / 2 ? 250 : 5, 3 * i, 3 * i + 3);
    }
    const file = await encodePng({ width, height, channels: 3, data });
    const { png } = await matte(model, file, { maskOnly: true });
    const alpha = (await alphaOfFile(png)).data;
    for (let i = 0; i < alpha.length; i++) {
      const fromEdge = i % width + 0.5 - width / 2;
      if (Math.abs(fromEdge) < 4) continue;
      assert.ok(fromEdge < 0 ? alpha[i]! > 250 : alpha[i]! < 5, `${name}: ${alpha[i]} at ${i}`);
    }
  }
});

Deno.test("MattingModel refuses graphs that make no masks", async () => {
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

Deno.test("MattingModel assumes what its family does where the folder has no processor", async () => {
  const graph = mattingGraph({ height: SIZE, width: SIZE });
  await using folder = await MattingFolder.create(graph, { config: { model_type: "modnet" } });
  await using model = await openModel(folder.path);
  const { png } = await matte(model, await encodePng(greyRamp()), { maskOnly: true });
  // MODNet's own levels are those of the processor above.
  assertAlpha((await alphaOfFile(png)).data, PROBABILITY);
});

/** Sizes that are hard on what resizes and encodes. */
const SIZES = [[1, 1], [1, 300], [300, 1], [2, 3], [255, 257], [333, 77]] as const;

async function assertSizes(model: MattingModel): Promise<void> {
  for (const [width, height] of SIZES) {
    const result = await matte(model, await discFile(width, height));
    const pixels = await decodeImage(result.png);
    assert.deepEqual([pixels.width, pixels.height], [width, height]);
    assert.deepEqual([result.width, result.height], [width, height]);
  }
}

Deno.test("MattingModel gives a picture its own size, on the CPU", async () => {
  await using model = await openModel(DEMO);
  await assertSizes(model as unknown as MattingModel);
});

gpuTest("MattingModel gives a picture its own size, on WebGPU", async (gpu) => {
  const backend = await WebGpuBackend.create(gpu);
  backend.openImages = () => WebGpuImages.create(gpu, { takesPictures: true });
  await using model = await openModel(DEMO, { backend });
  await assertSizes(model as unknown as MattingModel);
});

Deno.test("MattingModel cuts 48 megapixels out", async () => {
  await using model = await openModel(DEMO);
  const [width, height] = [8000, 6000];
  const small = discPicture(80, 60);
  const data = new Uint8Array(3 * width * height);
  for (let y = 0; y < height; y++) {
    const row = y * width * 3;
    if (y % 100 > 0) {
      data.copyWithin(row, row - 3 * width, row);
      continue;
    }
    for (let x = 0; x < width; x++) {
      const from = 3 * (Math.floor(y / 100) * 80 + Math.floor(x / 100));
      for (let c = 0; c < 3; c++) data[row + 3 * x + c] = small.data[from + c]!;
    }
  }
  const file = await encodePng({ width, height, channels: 3, data });
  const { png } = await matte(model, file);
  const cut = await decodeImage(png);
  assert.deepEqual([cut.width, cut.height, cut.channels], [width, height, 4]);
  const alphaAt = (x: number, y: number) => cut.data[4 * (y * width + x) + 3]!;
  assert.ok(alphaAt(4000, 3000) > 200);
  assert.ok(alphaAt(100, 100) < 20 && alphaAt(7900, 5900) < 20);
  for (let i = 0; i < 1000; i++) {
    const at = i * 47_963;
    const isSeen = cut.data[4 * at + 3] !== 0;
    assert.equal(cut.data[4 * at + 1], isSeen ? data[3 * at + 1] : 0);
  }
});

gpuTest(
  "WebGpuImages leaves to the CPU what is larger than a binding of the device",
  async (gpu) => {
    const limits = { ...limitsOf(gpu.limits), maxStorageBufferBindingSize: 20_000 };
    const backend = await WebGpuBackend.create(gpu);
    const small = { ...gpu, limits: limits as GPUSupportedLimits };
    backend.openImages = () => WebGpuImages.create(small, { takesPictures: true });
    await using model = await openModel(DEMO, { backend });
    await using whole = await openModel(DEMO, { backend: new CpuBackend() });
    // The first does not fit, of the second only what lies between the shaders does not, the third does.
    for (const [width, height] of [[100, 90], [10, 200], [40, 30]] as const) {
      const file = await discFile(width, height);
      const got = await alphaOfFile((await matte(model, file.slice())).png);
      const want = await alphaOfFile((await matte(whole, file)).png);
      assert.ok(compareAlpha(got, want).mae < 0.002);
    }
  },
);

function limitsOf(limits: GPUSupportedLimits): Record<string, number> {
  const { maxBufferSize, maxStorageBufferBindingSize } = limits;
  return { maxBufferSize, maxStorageBufferBindingSize };
}

Deno.test("MattingModel gives pictures that come together what each gets alone", async () => {
  await using model = await openModel(DEMO);
  const files = await Promise.all(
    [[64, 48], [100, 100], [31, 77], [200, 20], [48, 64], [90, 91], [64, 64]].map((
      [width, height],
    ) => discFile(width, height)),
  );
  const together = await Promise.all(files.map((file) => matte(model, file.slice())));
  for (const [index, file] of files.entries()) {
    const [got, want] = [together[index]!.png, (await matte(model, file)).png];
    const [alphas, alone] = [await alphaOfFile(got), await alphaOfFile(want)];
    // Products of a batch may be summed in another order.
    assert.ok(alphas.data.every((alpha, i) => Math.abs(alpha - alone.data[i]!) <= 1));
  }
  const text = await model.metrics.metrics();
  const valueOf = (part: string) =>
    Number(new RegExp(`^hearth_batch_pictures${part} (\\d+)$`, "m").exec(text)![1]);
  assert.equal(valueOf("_sum"), 2 * files.length);
  assert.ok(valueOf("_count") < 2 * files.length, "no two pictures shared a batch");
});

Deno.test("MattingModel runs pictures one by one where a graph takes no batches after all", async () => {
  for (const graph of [{ onlyOne: true }, { batch: 1 }]) {
    const options = { processor: PROCESSOR };
    await using folder = await MattingFolder.create(mattingGraph(graph), options);
    await using model = await openModel(folder.path);
    const file = await encodePng(greyRamp());
    const results = await Promise.all(
      Array.from({ length: 4 }, () => matte(model, file.slice(), { maskOnly: true })),
    );
    for (const { png } of results) assertAlpha((await alphaOfFile(png)).data, PROBABILITY);
  }
});

Deno.test("MattingModel tells nothing of what was cancelled, and goes on", async () => {
  await using model = await openModel(DEMO);
  const random = new Random(9);
  const events: string[] = [];
  for (let i = 0; i < 30; i++) {
    const image = await discFile(120, 80);
    const task = { type: "matte", requestId: `${i}`, image, param: "image", options: {} } as const;
    const end = model.start(task, (event) => {
      events.push(`${i} ${event.type}`);
      return Promise.resolve();
    });
    if (i % 3 === 0) await new Promise((resolve) => setTimeout(resolve, random.between(0, 60)));
    const before = events.length;
    end();
    await Promise.resolve();
    assert.equal(events.length, before);
  }
  const told = events.length;
  const { png } = await matte(model, await discFile());
  assert.equal((await decodeImage(png)).channels, 4);
  assert.equal(events.length, told);
  const figures = await model.metrics.metrics();
  assert.match(figures, /^hearth_sequences_running 0$/m);
  assert.match(figures, /^hearth_sequences_waiting 0$/m);
});
