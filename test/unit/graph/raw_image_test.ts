/** Image processors of transformers.js in a worker, compared with those of Python on Pillow. */
import assert from "node:assert/strict";
import type { Pixels } from "../../../src/media/pixels.ts";
import { loadTransformers, toRawImage } from "../../../src/device/ort/hook.ts";
import type {
  ProcessorJob,
  ProcessorResult,
} from "../../fixtures/images/image_processor_worker.ts";
import goldens from "../../fixtures/images/processors.json" with { type: "json" };
import stock from "../../fixtures/images/stock_processors.json" with { type: "json" };

const WORKER = new URL("../../fixtures/images/image_processor_worker.ts", import.meta.url);

/** Makes the image of `make_processors.py`, whose levels every filter changes. */
function makeImage(width: number, height: number): Pixels {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => {
    const [x, y] = [Math.floor(i / 3) % width, Math.floor(i / 3 / width)];
    return x * 7 + y * 13 + i % 3 * 5 + x * y * 31 % 97;
  });
  return { width, height, channels: 3, data };
}

/** A worker that runs image processors of given settings. */
class Processors implements Disposable {
  readonly #worker = new Worker(WORKER, { type: "module" });
  readonly #modelsFolder = Deno.makeTempDirSync();

  async process(config: unknown, pixels: Pixels): Promise<ProcessorResult> {
    const name = crypto.randomUUID();
    Deno.mkdirSync(`${this.#modelsFolder}/${name}`);
    const path = `${this.#modelsFolder}/${name}/preprocessor_config.json`;
    Deno.writeTextFileSync(path, JSON.stringify(config));
    const { promise, resolve } = Promise.withResolvers<ProcessorResult | { error: string }>();
    this.#worker.onmessage = ({ data }) => resolve(data);
    const job: ProcessorJob = { modelsFolder: this.#modelsFolder, name, pixels };
    this.#worker.postMessage(job);
    const result = await promise;
    if ("error" in result) throw new Error(result.error);
    return result;
  }

  [Symbol.dispose]() {
    this.#worker.terminate();
    Deno.removeSync(this.#modelsFolder, { recursive: true });
  }
}

function maxDifference(values: Float32Array, golden: string): number {
  const wanted = new Float32Array(Uint8Array.fromBase64(golden).buffer);
  return values.reduce((most, value, i) => Math.max(most, Math.abs(value - wanted[i]!)), 0);
}

Deno.test("loadTransformers() makes image processors in a worker equal Python's", async () => {
  using processors = new Processors();
  for (const { name, config, width, height, dims, pixelValues } of goldens) {
    const result = await processors.process(config, makeImage(width, height));
    assert.deepEqual(result.dims, dims, name);
    const difference = maxDifference(result.data, pixelValues);
    assert.ok(difference <= 1e-6, `${name}, ${width} × ${height}: off by ${difference}`);
  }
});

Deno.test("image processors that resize tensors by a graph give the same pixels in a worker as in Node", async () => {
  using processors = new Processors();
  for (const { name, config, width, height, dims, pixelValues } of stock) {
    const result = await processors.process(config, makeImage(width, height));
    assert.deepEqual(result.dims, dims, name);
    const difference = maxDifference(result.data, pixelValues);
    assert.ok(difference <= 1e-5, `${name}: off by ${difference}`);
  }
});

async function openRawImage(pixels: Pixels) {
  const { RawImage } = await loadTransformers({ modelsFolder: "." });
  return toRawImage(RawImage, pixels);
}

Deno.test("RawImage.resize() keeps the proportions if a side is absent, and accepts filters by number and name", async () => {
  const image = await openRawImage(makeImage(9, 6));
  for (const absent of [null, -1]) {
    assert.deepEqual((await image.resize(18, absent!)).size, [18, 12]);
    assert.deepEqual((await image.resize(absent!, 3)).size, [4, 3]);
  }
  const numbers = await image.resize(5, 4, { resample: 1 });
  assert.deepEqual(numbers.data, (await image.resize(5, 4, { resample: "lanczos" })).data);
  assert.notDeepEqual(numbers.data, (await image.resize(5, 4)).data);
  await assert.rejects(image.resize(5, 4, { resample: "gauss" }), /"gauss"/);
});

Deno.test("RawImage.crop() includes the last column and row, RawImage.pad() adds black", async () => {
  const data = Uint8Array.of(1, 2, 3, 4, 5, 6);
  const image = await openRawImage({ width: 3, height: 2, channels: 1, data });
  assert.deepEqual([...(await image.crop([1, 0, 2, 1])).data], [2, 3, 5, 6]);
  assert.deepEqual([...(await image.crop([-4, 1, 99, 99])).data], [4, 5, 6]);
  const padded = await image.pad([1, 0, 0, -5]);
  assert.deepEqual(padded.size, [4, 2]);
  assert.deepEqual([...padded.data], [0, 1, 2, 3, 0, 4, 5, 6]);
});
