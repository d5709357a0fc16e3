import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { StartupError } from "../../src/base/errors.ts";
import { decodeImage } from "../../src/media/image.ts";
import type { Pixels } from "../../src/media/pixels.ts";
import { encodePng } from "../../src/media/image/png.ts";
import { rectify } from "../../src/models/ocr/line_boxes.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { type LineOcrConfig, readLineOcrConfig } from "../../src/models/ocr/line_ocr.ts";
import { stackImages } from "../../src/models/ocr/line_graph.ts";
import { computeWidth, Drawing } from "../fixtures/images/drawing.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { openModel } from "../fixtures/engine/model.ts";

const FOLDER = findModelFolder("ppocr-v2-mobile");
const IMAGES = fileURLToPath(new URL("../../../shared/testdata/ocr", import.meta.url));
const isThere = FOLDER !== undefined && existsSync(IMAGES);

interface Goldens {
  readonly exact: readonly {
    readonly model: string;
    readonly input: string;
    readonly recipe: "det" | "rec" | "cls";
    readonly input_shape: readonly number[];
    readonly output: {
      readonly shape: readonly number[];
      readonly index: readonly number[];
      readonly value: readonly number[];
    };
    readonly text?: string;
  }[];
  readonly what_the_images_say: Readonly<Record<string, string | readonly string[]>>;
}

function ocrTest(name: string, fn: () => Promise<void>): void {
  const note = unlessThere(
    isThere,
    "models/ppocr-v2-mobile",
    "PP-OCR's own weights on photographs",
  );
  Deno.test({ name: name + note, ignore: !isThere, fn });
}

function readGoldens(): Goldens {
  return JSON.parse(Deno.readTextFileSync(join(FOLDER!, "golden.json")));
}

async function readImage(name: string): Promise<Uint8Array<ArrayBuffer>> {
  return await Deno.readFile(join(IMAGES, name));
}

function readLevels(config: LineOcrConfig, recipe: Goldens["exact"][number]["recipe"]) {
  if (recipe === "det") return config.detection.levels;
  return recipe === "cls" ? config.classification!.levels : config.recognition[0]!.levels;
}

/** Runs graphs on the exact inputs of an independent reference, and compares the outputs. */
async function checkGraphs(backend: Backend, wanted: RegExp, tolerance: number): Promise<void> {
  const config = await readLineOcrConfig(await openFolder(FOLDER!));
  for (const golden of readGoldens().exact.filter(({ model }) => wanted.test(model))) {
    const session = await backend.openSession(await Deno.readFile(join(FOLDER!, golden.model)));
    const image = await decodeImage(await readImage(golden.input.split("/").at(-1)!));
    const levels = readLevels(config, golden.recipe);
    const input = stackImages([image], { width: golden.input_shape[3]!, levels });
    assert.deepEqual([...input.dims], golden.input_shape);
    const outputs = await session.run({ [session.inputs[0]!.name]: input });
    const output = Object.values(outputs)[0]!;
    assert.deepEqual([...output.dims], golden.output.shape);
    const values = await backend.read(output);
    golden.output.index.forEach((position, spot) => {
      const [ours, theirs] = [values[position]!, golden.output.value[spot]!];
      assert.ok(Math.abs(ours - theirs) < tolerance, `${golden.model}: ${ours}, not ${theirs}`);
    });
    output.dispose();
    await session.release();
  }
}

for (const choice of ["native", "web"] as const) {
  ocrTest(
    `PP-OCR's graphs on the CPU equal an independent reference (${choice})`,
    () => checkGraphs(new CpuBackend({ choice }), /./, 1e-4),
  );
}

if (isThere) {
  gpuTest(
    "PP-OCR's graphs on WebGPU equal an independent reference",
    async (gpu) => await checkGraphs(await WebGpuBackend.create(gpu), /det_v3|rec_en/, 1e-3),
  );
}

/** The edit distance of two texts, relative to the length of the expected one. */
function errorRate(read: string, wanted: string): number {
  let row = Array.from({ length: wanted.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...read].entries()) {
    const next = [i + 1];
    for (let j = 1; j <= wanted.length; j++) {
      const swap = row[j - 1]! + Number(letter !== wanted[j - 1]);
      next.push(Math.min(swap, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row.at(-1)! / wanted.length;
}

async function readText(
  images: readonly Uint8Array<ArrayBuffer>[],
  text = "",
): Promise<string[]> {
  await using model = await openModel(FOLDER!);
  const answers = await Promise.all(
    images.map((image) => chat(model, [imageMessage(image, text)])),
  );
  return answers.map(({ texts }) => texts[0]!);
}

ocrTest("LineOcrModel reads pages in two scripts concurrently", async () => {
  const says = readGoldens().what_the_images_say;
  const names = ["en.jpg", "japan.jpg"];
  const read = await readText(await Promise.all(names.map(readImage)));
  const limits = [0.03, 0.08];
  names.forEach((name, index) => {
    const wanted = (says[`testdata/ocr/${name}`] as string[]).join("\n");
    const rate = errorRate(read[index]!, wanted);
    assert.ok(rate < limits[index]!, `${name}: ${rate}\n${read[index]}`);
    assert.equal(read[index]!.split("\n").length, wanted.split("\n").length);
  });
});

ocrTest("LineOcrModel reads a tightly cropped line, upright and upside down", async () => {
  const file = await readImage("en_rec.jpg");
  const { width, height, channels, data } = await decodeImage(file.slice());
  const turned = new Uint8Array(data.length);
  for (let from = 0; from < data.length; from += channels) {
    turned.set(data.subarray(from, from + channels), data.length - channels - from);
  }
  const upsideDown = encodePng({ width, height, channels, data: turned });
  const wanted = readGoldens().what_the_images_say["testdata/ocr/en_rec.jpg"];
  assert.deepEqual(await readText([file, upsideDown]), [wanted, wanted]);
});

ocrTest("LineOcrModel reads a skewed page", async () => {
  const page = await decodeImage(await readImage("en.jpg"));
  const says = readGoldens().what_the_images_say["testdata/ocr/en.jpg"] as string[];
  const turned = await Promise.all([-6, 4].map((degrees) => encodePng(askew(page, degrees))));
  for (const text of await readText(turned)) {
    assert.ok(errorRate(text, says.join("\n")) < 0.1, text);
  }
});

/** The page, rotated on a larger one. */
function askew(page: Pixels, degrees: number): Pixels {
  const angle = degrees * Math.PI / 180;
  const [width, height] = [800, 300];
  const at = (x: number, y: number): [number, number] => {
    const [dx, dy] = [x - width / 2, y - height / 2];
    return [
      page.width / 2 + dx * Math.cos(angle) - dy * Math.sin(angle),
      page.height / 2 + dx * Math.sin(angle) + dy * Math.cos(angle),
    ];
  };
  const corners = { topLeft: at(0, 0), topRight: at(width, 0), bottomLeft: at(0, height) };
  return rectify(page, { ...corners, width, height });
}

ocrTest("LineOcrModel recognizes the script of short texts", async () => {
  const texts = ["3:45", "2024", "10:30", "OK", "x=3"];
  const images = texts.flatMap((text) =>
    [18, 44].map((size) => {
      const width = computeWidth(text, { size }) + size;
      const drawing = new Drawing({ width: Math.ceil(width), height: Math.ceil(1.6 * size) });
      return encodePng(drawing.text(text, { x: size / 2, baseline: 1.15 * size, size }).pixels);
    })
  );
  const read = await readText(images);
  // The English recogniser writes no character of another script.
  assert.deepEqual(read.filter((text) => !/^[\x20-\x7e]+$/.test(text)), []);
});

ocrTest("LineOcrModel reads in the script that the prompt names", async () => {
  const page = await readImage("japan.jpg");
  const wanted = readGoldens().what_the_images_say["testdata/ocr/japan.jpg"] as string[];
  const [asJapanese] = await readText([page.slice()], "japan");
  assert.ok(errorRate(asJapanese!, wanted.join("\n")) < 0.08, asJapanese);
  // The English recogniser writes no character of another script.
  const [asEnglish] = await readText([page], "en");
  assert.match(asEnglish!, /^[\n\x20-\x7e]+$/);
});

ocrTest(
  "LineOcrModel returns a row in one event, with its characters' probabilities, and respects limits",
  async () => {
    await using model = await openModel(FOLDER!);
    const file = await readImage("en.jpg");
    const ask = (extra: object) => chat(model, [imageMessage(file.slice())], extra);
    const { texts, numDeltas, usage, logprobs } = await ask({ topLogprobs: 2 });
    assert.equal(numDeltas, 4);
    assert.equal(usage.completionTokens, texts[0]!.length + 1);
    assert.equal(logprobs[0]!.map(({ token }) => token).join(""), texts[0]);
    assert.ok(logprobs[0]!.every(({ logprob }) => logprob <= 0 && Number.isFinite(logprob)));
    assert.equal(logprobs[0]![0]!.top[0]!.token, "3");
    const cut = await ask({ maxTokens: 10 });
    assert.deepEqual([cut.texts[0], cut.reasons], [texts[0]!.slice(0, 10), ["length"]]);
    const stopped = await ask({ stop: ["\n"] });
    assert.deepEqual([stopped.texts[0], stopped.reasons], [texts[0]!.split("\n")[0], ["stop"]]);
  },
);

ocrTest("LineOcrModel finds nothing in an image without text", async () => {
  const [width, height] = [300, 200];
  const data = Uint8Array.from({ length: width * height * 3 }, (_, at) => at % 7 * 30);
  assert.deepEqual(await readText([encodePng({ width, height, channels: 3, data })]), [""]);
});

ocrTest(
  "LineOcrModel emits nothing after a cancellation, and serves other requests",
  async () => {
    await using model = await openModel(FOLDER!);
    const file = await readImage("en.jpg");
    const options = { stop: [], n: 1 };
    let numHeard = 0;
    const cancels = Array.from({ length: 6 }, () => {
      const messages = [imageMessage(file.slice())];
      return model.start({ type: "chat", requestId: "test", messages, options }, () => {
        numHeard++;
        return Promise.resolve();
      });
    });
    const line = chat(model, [imageMessage(await readImage("en_rec.jpg"))]);
    for (const cancel of cancels.slice(0, 5)) cancel();
    while (numHeard === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    cancels[5]!();
    const heardThen = numHeard;
    assert.match((await line).texts[0]!, /^To facilitate the shot type analysis/);
    assert.equal(numHeard, heardThen);
  },
);

ocrTest(
  "LineOcrModel refuses more answers than one, and a conversation without an image",
  async () => {
    await using model = await openModel(FOLDER!);
    const image = imageMessage(await readImage("en_rec.jpg"));
    await assert.rejects(chat(model, [image], { n: 2 }), /n: this model returns 1 answer, saw 2/);
    await assert.rejects(
      chat(model, [{ role: "user", content: "Hello" }]),
      /want an image in the last/,
    );
  },
);

ocrTest(
  "LineOcrModel refuses an image above the configured limit, naming the flag",
  async () => {
    await using model = await openModel(FOLDER!, { engine: { maxImagePixels: 1000 } });
    const image = imageMessage(await readImage("en_rec.jpg"));
    await assert.rejects(chat(model, [image]), /--max-image-megapixels/);
  },
);

ocrTest(
  "loadModel() names a damaged graph, and one with the wrong dictionary",
  async () => {
    const folder = await Deno.makeTempDir({ prefix: "hearth-ocr-" });
    try {
      for (const name of ["onnx", "dict"]) {
        await Deno.mkdir(join(folder, name));
        for await (const file of Deno.readDir(join(FOLDER!, name))) {
          const path = join(name, file.name);
          await Deno.writeFile(join(folder, path), await Deno.readFile(join(FOLDER!, path)));
        }
      }
      await Deno.copyFile(join(FOLDER!, "config.json"), join(folder, "config.json"));
      await Deno.writeTextFile(join(folder, "dict/japan.txt"), "a\nb\nc\n");
      await assert.rejects(openModel(folder), (error: unknown) => {
        assert.ok(error instanceof StartupError, String(error));
        assert.match(error.message, /rec_japan\.onnx has 4\d+ classes, .* has [45]\b/);
        return true;
      });
      await Deno.truncate(join(folder, "onnx/cls.onnx"), 1_000);
      await assert.rejects(openModel(folder), {
        name: "StartupError",
        message: /^onnx\/cls\.onnx cannot be loaded: /,
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
