/**
 * A twin of onnx-community/Kokoro-82M-v1.0-ONNX: StyleTTS 2 without diffusion, with 82 million random parameters. Most
 * of the work is in the vocoder, an iSTFTNet.
 *
 * @see https://arxiv.org/abs/2306.07691
 * @see https://arxiv.org/abs/2203.02395
 * @module
 */
import { attention, layerNorm, linear, mlp } from "../../fixtures/graphs/graph_layers.ts";
import { ttsFiles } from "../../fixtures/models/tiny_tts.ts";
import { durations, stretch } from "../../fixtures/models/tts_layers.ts";
import {
  biLstm,
  conv,
  floats,
  repeatFrames,
  snakeBlock,
  split,
  STYLE,
  styledBlock,
  withStyle,
} from "./kokoro_layers.ts";
import { Random } from "./random.ts";
import { twinFolder, writeTwinFiles } from "./twin.ts";
import { TwinGraph } from "./twin_graph.ts";

const VOICE = "af_heart";
/** Style vectors of a voice, one for each number of phonemes. */
const STYLES = 510;
const WIDTH = 512;
const BERT = { width: 768, heads: 12, inner: 2048 };
const BERT_VECTORS = 128;
/** Layers that all have the same weights. */
const BERT_LAYERS = 12;
const HARMONICS = 9;
/** Size of the inverse Fourier transform that makes the sound. */
const FFT = 20;
const HOP = 5;
const BINS = FFT / 2 + 1;
/** Channels before the vocoder's first upsampling; halved by each. */
const CHANNELS = 512;
const UPSAMPLING = [10, 6] as const;
const RESIDUAL_KERNELS = [3, 7, 11];
/** Samples of a frame of pitch. */
const SAMPLES = 300;

/** The folder, which is written if it does not exist. */
export async function kokoroFolder(): Promise<string> {
  return await twinFolder("kokoro-82m-1", async (folder) => {
    const files = ttsFiles("kokoro");
    const tokenizer = files["tokenizer.json"] as { model: { vocab: object } };
    const styles = new Random(7).floats(STYLES * 2 * STYLE, { low: -0.3, high: 0.3 });
    await writeTwinFiles(folder, {
      "config.json": files["config.json"]!,
      "tokenizer.json": tokenizer,
      "tokenizer_config.json": files["tokenizer_config.json"]!,
      [`voices/${VOICE}.bin`]: new Uint8Array(styles.buffer),
      "onnx/model.onnx": buildGraph(Object.keys(tokenizer.model.vocab).length),
    });
  });
}

function buildGraph(vocab: number): Uint8Array<ArrayBuffer> {
  const graph = new TwinGraph();
  const [spoken, predicted] = split(graph, "style", 2) as [string, string];

  const read = withStyle(graph, bert(graph, vocab), predicted);
  let states = read;
  for (let layer = 0; layer < 3; layer++) {
    const next = biLstm(graph, states, { from: WIDTH + STYLE, width: WIDTH });
    states = withStyle(graph, next, predicted);
  }
  const timed = biLstm(graph, states, { from: WIDTH + STYLE, width: WIDTH });
  const frames = durations(graph, conv(graph, timed, { from: WIDTH, to: 1 }), "speed");

  const prosody = biLstm(graph, stretch(graph, states, frames), {
    from: WIDTH + STYLE,
    width: WIDTH,
  });
  const [pitch, energy] = [curve(graph, prosody, predicted), curve(graph, prosody, predicted)];
  const text = stretch(graph, textEncoder(graph, vocab), frames);
  const features = decode(graph, text, { pitch, energy, style: spoken });
  vocode(graph, features, { pitch, style: spoken });
  return graph.build({
    inputs: [
      ["input_ids", "int64", [1, "sequence_length"]],
      ["style", "float32", [1, 2 * STYLE]],
      ["speed", "float32", [1]],
    ],
    outputs: [["waveform", "float32", [1, "num_samples"]]],
  });
}

function turned(graph: TwinGraph, input: string): string {
  return graph.add("Transpose", [input], { attributes: { perm: [0, 2, 1] } });
}

/** ALBERT over phonemes. */
function bert(graph: TwinGraph, vocab: number): string {
  const vectors = graph.add("Gather", [graph.weights([vocab, BERT_VECTORS], 1), "input_ids"]);
  let states = linear(graph, vectors, { from: BERT_VECTORS, to: BERT.width });
  for (let layer = 0; layer < BERT_LAYERS; layer++) {
    states = graph.withSameWeights("bert", () => {
      const attended = attention(graph, { ...BERT, queries: states });
      const sum = layerNorm(graph, graph.add("Add", [states, attended]), BERT.width);
      return layerNorm(graph, graph.add("Add", [sum, mlp(graph, sum, BERT)]), BERT.width);
    });
  }
  return turned(graph, linear(graph, states, { from: BERT.width, to: WIDTH }));
}

function textEncoder(graph: TwinGraph, vocab: number): string {
  let states = turned(
    graph,
    graph.add("Gather", [graph.weights([vocab, WIDTH], 1), "input_ids"]),
  );
  for (let layer = 0; layer < 3; layer++) {
    const mixed = turned(graph, conv(graph, states, { from: WIDTH, to: WIDTH, size: 5 }));
    states = turned(
      graph,
      graph.add("LeakyRelu", [layerNorm(graph, mixed, WIDTH)], {
        attributes: { alpha: { float: 0.2 } },
      }),
    );
  }
  return biLstm(graph, states, { from: WIDTH, width: WIDTH });
}

/** Predicts a number for each half frame, `[1, 1, 2 · frames]`. */
function curve(graph: TwinGraph, input: string, style: string): string {
  const half = WIDTH / 2;
  let states = styledBlock(graph, input, { from: WIDTH, to: WIDTH, style });
  states = styledBlock(graph, states, { from: WIDTH, to: half, style, upsamples: true });
  states = styledBlock(graph, states, { from: half, to: half, style });
  return conv(graph, states, { from: half, to: 1 });
}

/** Combines content and prosody to `[1, 512, 2 · frames]`. */
function decode(
  graph: TwinGraph,
  text: string,
  { pitch, energy, style }: {
    readonly pitch: string;
    readonly energy: string;
    readonly style: string;
  },
): string {
  const inner = 2 * WIDTH;
  const curves = [pitch, energy].map((each) =>
    conv(graph, each, { from: 1, to: 1, size: 3, stride: 2 })
  );
  const join = (...parts: string[]) => graph.add("Concat", parts, { attributes: { axis: 1 } });
  const reduced = conv(graph, text, { from: WIDTH, to: 64 });
  let states = styledBlock(graph, join(text, ...curves), { from: WIDTH + 2, to: inner, style });
  for (const to of [inner, inner, inner, WIDTH]) {
    const from = inner + 64 + 2;
    const input = join(states, reduced, ...curves);
    states = styledBlock(graph, input, { from, to, style, upsamples: to === WIDTH });
  }
  return states;
}

/** The spectrum of the harmonics of a pitch: `[1, 22, samples / 5 + 1]`. */
function source(graph: TwinGraph, pitch: string): string {
  const multiples = floats(
    graph,
    Array.from({ length: HARMONICS }, (_, i) => (i + 1) / 80),
    [1, HARMONICS, 1],
  );
  const turns = graph.add("CumSum", [
    graph.add("Mul", [pitch, multiples]),
    graph.ints([2], []),
  ]);
  const sines = graph.add("Sin", [repeatFrames(graph, turns, SAMPLES, "linear")]);
  const noise = graph.add("RandomNormalLike", [sines], { attributes: { dtype: 1 } });
  const noisy = graph.add("Add", [sines, graph.add("Mul", [noise, graph.float(0.003)])]);
  const mono = graph.add("Tanh", [conv(graph, noisy, { from: HARMONICS, to: 1 })]);
  const [real, imaginary] = split(
    graph,
    conv(graph, mono, { from: 1, to: 2 * BINS, size: FFT, stride: HOP, pads: FFT / 2 }),
    2,
  ) as [string, string];
  const squares = [real, imaginary].map((each) => graph.add("Mul", [each, each]));
  const power = graph.add("Add", [graph.add("Sum", squares), graph.float(1e-6)]);
  const angle = graph.add("Atan", [graph.add("Div", [imaginary, graph.add("Sqrt", [power])])]);
  return graph.add("Concat", [graph.add("Sqrt", [power]), angle], { attributes: { axis: 1 } });
}

/** iSTFTNet: names its sound `waveform`, `[1, samples]`. */
function vocode(
  graph: TwinGraph,
  features: string,
  { pitch, style }: { readonly pitch: string; readonly style: string },
): void {
  const harmonics = source(graph, pitch);
  let sound = features;
  UPSAMPLING.forEach((factor, stage) => {
    const [from, to] = [CHANNELS >> stage, CHANNELS >> (stage + 1)];
    const isLast = stage === UPSAMPLING.length - 1;
    const kernel = graph.weights([from, to, 2 * factor], 1.2 / Math.sqrt(2 * from));
    const activated = graph.add("LeakyRelu", [sound], { attributes: { alpha: { float: 0.1 } } });
    let larger = graph.add("ConvTranspose", [activated, kernel], {
      attributes: {
        kernel_shape: [2 * factor],
        strides: [factor],
        pads: [factor / 2, factor / 2],
      },
    });
    if (isLast) {
      larger = graph.add("Pad", [larger, graph.ints([0, 0, 1, 0, 0, 0])], {
        attributes: { mode: "reflect" },
      });
    }
    const [next] = UPSAMPLING.slice(stage + 1);
    const sizes = next === undefined ? {} : { size: 2 * next, stride: next, pads: next / 2 };
    const heard = snakeBlock(graph, conv(graph, harmonics, { from: 2 * BINS, to, ...sizes }), {
      channels: to,
      size: isLast ? 11 : 7,
      style,
    });
    const both = graph.add("Add", [larger, heard]);
    const branches = RESIDUAL_KERNELS.map((size) =>
      snakeBlock(graph, both, { channels: to, size, style })
    );
    sound = graph.add("Mul", [graph.add("Sum", branches), graph.float(1 / branches.length)]);
  });
  const [levels, phases] = split(
    graph,
    conv(graph, graph.add("LeakyRelu", [sound], { attributes: { alpha: { float: 0.01 } } }), {
      from: CHANNELS >> UPSAMPLING.length,
      to: 2 * BINS,
      size: 7,
    }),
    2,
  ) as [string, string];
  const magnitudes = graph.add("Exp", [levels]);
  const angles = graph.add("Sin", [phases]);
  const spectrum = graph.add("Concat", [
    graph.add("Mul", [magnitudes, graph.add("Cos", [angles])]),
    graph.add("Mul", [magnitudes, graph.add("Sin", [angles])]),
  ], { attributes: { axis: 1 } });
  const waves = graph.add("ConvTranspose", [spectrum, graph.weights([2 * BINS, 1, FFT], 0.01)], {
    attributes: { kernel_shape: [FFT], strides: [HOP], pads: [FFT / 2, FFT / 2] },
  });
  graph.add("Squeeze", [waves, graph.ints([1])], { outputs: ["waveform"] });
}
