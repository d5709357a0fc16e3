/** Upside-down lines, with classifiers built here. */
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { encodePng } from "../../src/media/image/png.ts";
import type { Pixels } from "../../src/media/pixels.ts";
import { LineGraph, readChannelLevels } from "../../src/models/ocr/line_graph.ts";
import { findUpsideDown } from "../../src/models/ocr/text_recognition.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { Drawing, rectangle } from "../fixtures/images/drawing.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { GraphBuilder } from "../fixtures/graphs/graph_builder.ts";
import { openModel } from "../fixtures/engine/model.ts";
import { constant } from "../fixtures/graphs/onnx_builder.ts";
import { withFolder } from "../fixtures/models/paddle_folder.ts";

const [WIDTH, HEIGHT] = [192, 48];

/**
 * Probabilities `[lines, 2]` of upright and upside down, by the darkness of the upper and the lower half.
 *
 * @param bias added to the value of "upside down" before the softmax.
 */
function classifier(bias = 0): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const rows = graph.add("ReduceMean", ["x"], { attributes: { axes: [1, 3], keepdims: 0 } });
  const halves = Float32Array.from(
    { length: 2 * HEIGHT },
    (_, at) => (at >> 1) < HEIGHT / 2 === (at % 2 === 0) ? -1 : 0,
  );
  const dark = graph.add("MatMul", [rows, graph.constant(constant("halves", [HEIGHT, 2], halves))]);
  const biased = graph.add("Add", [
    dark,
    graph.constant(constant("bias", [2], Float32Array.of(0, bias))),
  ]);
  graph.add("Softmax", [biased], { attributes: { axis: 1 }, outputs: ["probabilities"] });
  return graph.build({
    inputs: [["x", "float32", ["lines", 3, HEIGHT, WIDTH]]],
    outputs: [["probabilities", "float32", ["lines", 2]]],
    opset: 13,
  });
}

function turned({ data, ...rest }: Pixels): Pixels {
  const all = new Uint8Array(data.length);
  for (let from = 0; from < data.length; from += 3) {
    all.set(data.subarray(from, from + 3), data.length - 3 - from);
  }
  return { ...rest, data: all };
}

cpuTest(
  "findUpsideDown() returns the lines that its graph classifies as upside down",
  async (backend) => {
    const half = [0.5, 0.5, 0.5];
    const graph = new LineGraph({
      file: "cls.onnx",
      width: WIDTH,
      height: HEIGHT,
      threshold: 0.9,
      levels: readChannelLevels({ mean: half, std: half, isBgr: true }),
    }, { backend, session: await backend.openSession(classifier()) });
    const drawing = new Drawing({ width: 150, height: 40 });
    // A mark in one corner distinguishes a half turn from a mirror image.
    const upright = drawing.fill(rectangle([5, 2], [60, 16]), [0, 0, 0]).pixels;
    const found = await findUpsideDown(
      graph,
      Array.from({ length: 40 }, (_, at) => at % 3 === 0 ? turned(upright) : upright),
      new AbortController().signal,
    );
    assert.deepEqual(found, Array.from({ length: 40 }, (_, at) => at % 3 === 0));
    await graph.release();
  },
);

/** The built-in model with a classifier that considers every line upside down. */
async function withDoubtful(run: (folder: string) => Promise<void>): Promise<void> {
  const demo = findModelFolder("hearth-demo-ocr")!;
  const config = JSON.parse(await Deno.readTextFile(`${demo}/config.json`));
  const half = [0.5, 0.5, 0.5];
  const section = { file: "onnx/cls.onnx", width: WIDTH, height: HEIGHT, threshold: 0.9 };
  const files = {
    "onnx/det.onnx": pathToFileURL(`${demo}/onnx/det.onnx`),
    "onnx/rec_en.onnx": pathToFileURL(`${demo}/onnx/rec_en.onnx`),
    "dict/en.txt": pathToFileURL(`${demo}/dict/en.txt`),
    "onnx/cls.onnx": classifier(1000),
    "config.json": JSON.stringify({
      ...config,
      classification: { ...section, image_mean: half, image_std: half },
    }),
  };
  await withFolder(files, run);
}

Deno.test("an upside-down line is read with a classifier", async () => {
  const line = new Drawing({ width: 300, height: 48 })
    .text("Invoice 20417", { x: 20, baseline: 32, size: 24 });
  await withDoubtful(async (folder) => {
    await using model = await openModel(folder);
    const { texts } = await chat(model, [imageMessage(encodePng(turned(line.pixels)))]);
    assert.equal(texts[0], "Invoice 20417");
  });
});

Deno.test("the recogniser decides the orientation of a page, despite the classifier", async () => {
  const page = new Drawing({ width: 420, height: 240 });
  const lines = ["Invoice number 20417", "Payment within thirty days", "Account 55 of the bank"];
  for (const [i, line] of lines.entries()) {
    page.text(line, { x: 24, baseline: 60 + 64 * i, size: 24 });
  }
  await withDoubtful(async (folder) => {
    await using model = await openModel(folder);
    for (const image of [page.pixels, turned(page.pixels)]) {
      const { texts } = await chat(model, [imageMessage(encodePng(image))]);
      assert.deepEqual(texts[0]!.split("\n"), lines);
    }
  });
});
