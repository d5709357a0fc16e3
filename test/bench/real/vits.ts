/**
 * A twin of Xenova/mms-tts-eng: VITS with 30 million random parameters. Most of the work is in the HiFi-GAN.
 *
 * @see https://arxiv.org/abs/2106.06103
 * @module
 */
import { encoderLayer } from "../../fixtures/graphs/graph_layers.ts";
import { ttsFiles } from "../../fixtures/models/tiny_tts.ts";
import { addNoise, durations, leaky, stretch } from "../../fixtures/models/tts_layers.ts";
import { twinFolder, writeTwinFiles } from "./twin.ts";
import { TwinGraph } from "./twin_graph.ts";

const WIDTH = 192;
const INNER = 768;
const HEADS = 2;
const LAYERS = 6;
const FLOWS = 4;
const FLOW_LAYERS = 4;
/** Channels before the first upsampling; halved by each. */
const CHANNELS = 512;
const UPSAMPLING = [8, 8, 2, 2];
const RESIDUAL_KERNELS = [3, 7, 11];
const DILATIONS = [1, 3, 5];

/** The folder, which is written if it does not exist. */
export async function vitsFolder(): Promise<string> {
  return await twinFolder("mms-tts-eng-1", async (folder) => {
    const files = ttsFiles("vits") as Record<string, Uint8Array | object>;
    const { vocab_size: vocab } = files["config.json"] as { vocab_size: number };
    await writeTwinFiles(folder, { ...files, "onnx/model.onnx": buildGraph(vocab) });
  });
}

function buildGraph(vocab: number): Uint8Array<ArrayBuffer> {
  const graph = new TwinGraph();
  const conv = (
    input: string,
    { from, to, size, dilation = 1 }: { from: number; to: number; size: number; dilation?: number },
  ) => {
    const margin = dilation * (size - 1) / 2;
    const kernel = graph.weights([to, from, size], 1.2 / Math.sqrt(size * from));
    return graph.add("Conv", [input, kernel, graph.weights([to], 0.02)], {
      attributes: { kernel_shape: [size], pads: [margin, margin], dilations: [dilation] },
    });
  };
  const turned = (input: string) =>
    graph.add("Transpose", [input], { attributes: { perm: [0, 2, 1] } });

  const mask = graph.add("Unsqueeze", [
    graph.add("Cast", ["attention_mask"], { attributes: { to: 1 } }),
    graph.ints([1]),
  ]);
  let states = graph.add("Gather", [graph.weights([vocab, WIDTH], 1), "input_ids"]);
  for (let layer = 0; layer < LAYERS; layer++) {
    states = encoderLayer(graph, { queries: states, width: WIDTH, heads: HEADS, inner: INNER });
  }
  const hidden = graph.add("Mul", [turned(states), mask]);
  const logits = addNoise(graph, conv(hidden, { from: WIDTH, to: 1, size: 3 }), 0);
  const means = stretch(graph, hidden, graph.add("Mul", [durations(graph, logits), mask]));
  let latents = addNoise(graph, means, 0);
  for (let layer = 0; layer < FLOWS * FLOW_LAYERS; layer++) {
    const both = conv(latents, { from: WIDTH, to: 2 * WIDTH, size: 5 });
    const halves = ["tanh", "sigmoid"].map((name) => `flow_${layer}/${name}`);
    graph.add("Split", [both], { outputs: halves, attributes: { axis: 1 } });
    const gated = graph.add("Mul", [
      graph.add("Tanh", [halves[0]!]),
      graph.add("Sigmoid", [halves[1]!]),
    ]);
    latents = graph.add("Add", [latents, conv(gated, { from: WIDTH, to: WIDTH, size: 1 })]);
  }
  graph.add("Identity", [latents], { outputs: ["spectrogram"] });

  let sound = conv(latents, { from: WIDTH, to: CHANNELS, size: 7 });
  UPSAMPLING.forEach((factor, stage) => {
    const [from, to] = [CHANNELS >> stage, CHANNELS >> (stage + 1)];
    const kernel = graph.weights([from, to, 2 * factor], 1.2 / Math.sqrt(2 * from));
    const larger = graph.add("ConvTranspose", [leaky(graph, sound), kernel], {
      attributes: {
        kernel_shape: [2 * factor],
        strides: [factor],
        pads: [factor / 2, factor / 2],
      },
    });
    const branches = RESIDUAL_KERNELS.map((size) =>
      DILATIONS.reduce((input, dilation) => {
        const first = conv(leaky(graph, input), { from: to, to, size, dilation });
        return graph.add("Add", [input, conv(leaky(graph, first), { from: to, to, size })]);
      }, larger)
    );
    sound = graph.add("Mul", [graph.add("Sum", branches), graph.float(1 / branches.length)]);
  });
  const mono = conv(leaky(graph, sound), { from: CHANNELS >> UPSAMPLING.length, to: 1, size: 7 });
  graph.add("Squeeze", [graph.add("Tanh", [mono]), graph.ints([1])], { outputs: ["waveform"] });
  return graph.build({
    inputs: [
      ["input_ids", "int64", ["batch_size", "sequence_length"]],
      ["attention_mask", "int64", ["batch_size", "sequence_length"]],
    ],
    outputs: [
      ["waveform", "float32", ["batch_size", "n_samples"]],
      ["spectrogram", "float32", ["batch_size", "num_bins", "n_frames"]],
    ],
  });
}
