import assert from "node:assert/strict";
import {
  computeTensorFormat,
  readPreprocessorConfig,
} from "../../../src/models/folder/preprocessor_config.ts";

type Config = Record<string, unknown>;

/** Sizes of the tensor and of its content: `[width, height, contentWidth, contentHeight]`. */
function makeSizes(
  config: Config,
  [width, height]: readonly [number, number],
  graph?: { width: number; height: number },
): number[] {
  const processor = readPreprocessorConfig(config);
  const form = computeTensorFormat(processor, { image: { width, height }, graph, layout: "nchw" });
  return [form.width, form.height, form.contentWidth, form.contentHeight];
}

Deno.test("readPreprocessorConfig() combines rescaling and normalising into one scale and one offset", () => {
  const config = { size: 8, do_normalize: true, image_mean: [0.5, 0.4, 0.3], image_std: 0.5 };
  const { scale, offset } = readPreprocessorConfig(config);
  for (const level of [0, 1, 200, 255]) {
    [0.5, 0.4, 0.3].forEach((mean, c) => {
      const want = (level / 255 - mean) / 0.5;
      assert.ok(Math.abs(level * scale[c]! + offset[c]! - want) < 1e-12);
    });
  }
  const plain = readPreprocessorConfig({ size: 8 });
  assert.deepEqual([plain.scale[0], plain.offset[0]], [1 / 255, 0]);
  const raw = readPreprocessorConfig({ size: 8, do_rescale: false });
  assert.deepEqual([raw.scale[2], raw.offset[2]], [1, 0]);
});

Deno.test("readPreprocessorConfig() reads Pillow's filter numbers, with bilinear as the default", () => {
  const filters = [0, 1, 2, 3, 4, 5].map((resample) => readPreprocessorConfig({ resample }).filter);
  assert.deepEqual(filters, ["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]);
  assert.equal(readPreprocessorConfig({}).filter, "bilinear");
});

Deno.test("readPreprocessorConfig() refuses settings that would misplace the mask or are invalid", () => {
  for (
    const name of ["do_center_crop", "do_crop_margin", "do_thumbnail", "do_flip_channel_order"]
  ) {
    assert.throws(() => readPreprocessorConfig({ [name]: true }), { message: new RegExp(name) });
    readPreprocessorConfig({ [name]: false });
  }
  assert.throws(() => readPreprocessorConfig({ resample: 7 }), { message: /0 to 5, saw 7/ });
  assert.throws(
    () => readPreprocessorConfig({ do_normalize: true, image_mean: [0.5] }),
    { message: /3 numbers, saw \[0\.5\]/ },
  );
});

Deno.test("computeTensorFormat() reads every format of sizes", () => {
  const cases: [Config, readonly [number, number], number[]][] = [
    [{ size: { width: 256, height: 128 } }, [640, 480], [256, 128, 256, 128]],
    [{ size: { shortest_edge: 32 } }, [640, 480], [42, 32, 42, 32]],
    [{ size: { shortest_edge: 32 } }, [10, 20], [32, 64, 32, 64]],
    [{ size: { shortest_edge: 32, longest_edge: 40 } }, [640, 480], [40, 30, 40, 30]],
    [{ size: { longest_edge: 100 } }, [50, 200], [25, 100, 25, 100]],
    // `longest_edge` alone never enlarges an image.
    [{ size: { longest_edge: 100 } }, [50, 20], [50, 20, 50, 20]],
    [{ size: 64 }, [640, 320], [64, 32, 64, 32]],
    [{ size: 64, max_size: 100 }, [640, 320], [100, 50, 100, 50]],
    [{ image_size: 64 }, [64, 64], [64, 64, 64, 64]],
    [{ size: { shortest_edge: 512 }, size_divisibility: 32 }, [1000, 667], [736, 512, 736, 512]],
    [{ size_divisibility: 32 }, [100, 70], [96, 64, 96, 64]],
    [{ size_divisibility: 32 }, [10, 7], [32, 32, 32, 32]],
    [{ do_resize: false, size: { width: 8, height: 8 } }, [100, 70], [100, 70, 100, 70]],
  ];
  for (const [config, image, want] of cases) {
    assert.deepEqual(makeSizes(config, image), want, JSON.stringify(config));
  }
});

Deno.test("computeTensorFormat() pads at the right and the bottom", () => {
  const padded = { size: { longest_edge: 100 }, do_pad: true };
  assert.deepEqual(
    makeSizes({ ...padded, pad_size: { width: 128, height: 120 } }, [200, 50]),
    [128, 120, 100, 25],
  );
  assert.deepEqual(makeSizes({ ...padded, size_divisibility: 32 }, [200, 50]), [128, 32, 100, 25]);
  assert.deepEqual(makeSizes({ ...padded, pad_size: 100 }, [50, 100]), [100, 100, 50, 100]);
  const whole = { size: { width: 64, height: 48 }, do_pad: true };
  assert.deepEqual(makeSizes(whole, [200, 50]), [64, 48, 64, 48]);
});

Deno.test("computeTensorFormat() stretches to a graph of fixed size, unless the processor already returns that size", () => {
  const graph = { width: 128, height: 120 };
  assert.deepEqual(makeSizes({ size: 1024 }, [200, 50], graph), [128, 120, 128, 120]);
  const padded = { size: { longest_edge: 100 }, do_pad: true, pad_size: graph };
  assert.deepEqual(makeSizes(padded, [200, 50], graph), [128, 120, 100, 25]);
});
