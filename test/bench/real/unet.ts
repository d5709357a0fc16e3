/**
 * A U-Net of 44 million parameters with random weights, in the layout of background removal models such as IS-Net's.
 *
 * @module
 */
import { twinFolder, writeTwinFiles } from "./twin.ts";
import { TwinGraph } from "./twin_graph.ts";

const SIZE = 384;
/** Channels of each level, from full size on; each level has half the size of the previous one. */
const CHANNELS = [40, 80, 160, 320, 640, 1120];

/** The folder, which is written if it does not exist. */
export async function unetFolder(): Promise<string> {
  return await twinFolder("unet-44m-1", async (folder) => {
    await writeTwinFiles(folder, {
      "config.json": {
        architectures: ["ISNetForImageSegmentation"],
        model_type: "isnet",
        image_size: SIZE,
        num_channels: 3,
      },
      "preprocessor_config.json": {
        feature_extractor_type: "ImageFeatureExtractor",
        do_normalize: true,
        do_pad: false,
        do_rescale: true,
        do_resize: true,
        image_mean: [0.5, 0.5, 0.5],
        image_std: [1, 1, 1],
        resample: 2,
        rescale_factor: 1 / 255,
        size: { width: SIZE, height: SIZE },
      },
      "onnx/model.onnx": buildGraph(),
    });
  });
}

function buildGraph(): Uint8Array<ArrayBuffer> {
  const graph = new TwinGraph();
  const conv = (input: string, from: number, to: number) => {
    const kernel = graph.weights([to, from, 3, 3], 2.4 / Math.sqrt(9 * from));
    return graph.add("Conv", [input, kernel, graph.weights([to], 0.05)], {
      attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1], strides: [1, 1] },
    });
  };
  const block = (input: string, from: number, to: number) => {
    const first = graph.add("Relu", [conv(input, from, to)]);
    return graph.add("Relu", [conv(first, to, to)]);
  };
  const levels: string[] = [];
  let hidden = "pixel_values";
  CHANNELS.forEach((channels, level) => {
    if (level > 0) {
      hidden = graph.add("MaxPool", [hidden], {
        attributes: { kernel_shape: [2, 2], strides: [2, 2] },
      });
    }
    hidden = block(hidden, CHANNELS[level - 1] ?? 3, channels);
    levels.push(hidden);
  });
  const twice = graph.constant({
    name: "twice",
    dtype: "float32",
    shape: [4],
    data: { kind: "memory", bytes: new Uint8Array(Float32Array.of(1, 1, 2, 2).buffer) },
    rest: [],
  });
  for (let level = CHANNELS.length - 2; level >= 0; level--) {
    const larger = graph.add("Resize", [hidden, "", twice], {
      attributes: { mode: "linear", coordinate_transformation_mode: "pytorch_half_pixel" },
    });
    const joined = graph.add("Concat", [larger, levels[level]!], { attributes: { axis: 1 } });
    const channels = CHANNELS[level]!;
    hidden = block(joined, CHANNELS[level + 1]! + channels, channels);
  }
  graph.add("Sigmoid", [conv(hidden, CHANNELS[0]!, 1)], { outputs: ["alphas"] });
  return graph.build({
    inputs: [["pixel_values", "float32", ["batch_size", 3, SIZE, SIZE]]],
    outputs: [["alphas", "float32", ["batch_size", 1, SIZE, SIZE]]],
  });
}
