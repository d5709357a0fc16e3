/**
 * The layers of StyleTTS 2 with random weights. Values are `[1, channels, frames]`, styles `[1, 128]`.
 *
 * @see https://arxiv.org/abs/2306.07691
 * @module
 */
import { constant } from "../../fixtures/graphs/onnx_builder.ts";
import type { TwinGraph } from "./twin_graph.ts";

/** Numbers in half a style: the predictor uses one half, the vocoder the other. */
export const STYLE = 128;
const DILATIONS = [1, 3, 5];

/** A convolution's sizes; by default it keeps the number of frames. */
export interface ConvSizes {
  readonly from: number;
  readonly to: number;
  readonly size?: number;
  readonly dilation?: number;
  readonly stride?: number;
  readonly pads?: number;
}

export function conv(graph: TwinGraph, input: string, sizes: ConvSizes): string {
  const { from, to, size = 1, dilation = 1, stride = 1 } = sizes;
  const { pads = dilation * (size - 1) / 2 } = sizes;
  const kernel = graph.weights([to, from, size], 1.2 / Math.sqrt(size * from));
  return graph.add("Conv", [input, kernel, graph.weights([to], 0.02)], {
    attributes: {
      kernel_shape: [size],
      pads: [pads, pads],
      dilations: [dilation],
      strides: [stride],
    },
  });
}

/** An instance norm whose scale and shift depend on a style. */
function adaIn(graph: TwinGraph, input: string, channels: number, style: string): string {
  const product = graph.add("MatMul", [style, graph.weights([STYLE, 2 * channels], 0.1)]);
  const both = graph.add("Unsqueeze", [
    graph.add("Add", [product, graph.weights([2 * channels], 0.1)]),
    graph.ints([2]),
  ]);
  const [scale, shift] = split(graph, both, 2);
  const normed = graph.add("InstanceNormalization", [
    input,
    graph.ones(channels),
    graph.weights([channels], 0.01),
  ]);
  const scaled = graph.add("Mul", [graph.add("Add", [scale!, graph.float(1)]), normed]);
  return graph.add("Add", [scaled, shift!]);
}

export function floats(
  graph: TwinGraph,
  values: readonly number[],
  shape: readonly number[] = [values.length],
): string {
  const name = `floats_${shape.join("x")}_${values.join("_")}`;
  return graph.constant(constant(name, shape, Float32Array.from(values)));
}

/** Splits the channels into equal parts. */
export function split(graph: TwinGraph, input: string, count: number): readonly string[] {
  const parts = Array.from({ length: count }, (_, part) => `${input}/part_${part}`);
  graph.add("Split", [input], { outputs: parts, attributes: { axis: 1 } });
  return parts;
}

function leaky(graph: TwinGraph, input: string): string {
  return graph.add("LeakyRelu", [input], { attributes: { alpha: { float: 0.2 } } });
}

/** Repeats each frame, twice or more often. */
export function repeatFrames(
  graph: TwinGraph,
  input: string,
  factor: number,
  mode = "nearest",
): string {
  const scales = floats(graph, [1, 1, factor]);
  return graph.add("Resize", [input, "", scales], { attributes: { mode } });
}

/** A residual block that depends on a style; with `upsamples` it makes two frames of each. */
export function styledBlock(
  graph: TwinGraph,
  input: string,
  { from, to, style, upsamples = false }: {
    readonly from: number;
    readonly to: number;
    readonly style: string;
    readonly upsamples?: boolean;
  },
): string {
  let states = leaky(graph, adaIn(graph, input, from, style));
  let shortcut = input;
  if (upsamples) {
    states = graph.add("ConvTranspose", [states, graph.weights([from, 1, 3], 0.8)], {
      attributes: {
        kernel_shape: [3],
        strides: [2],
        pads: [1, 1],
        output_padding: [1],
        group: from,
      },
    });
    shortcut = repeatFrames(graph, input, 2);
  }
  states = conv(graph, states, { from, to, size: 3 });
  states = leaky(graph, adaIn(graph, states, to, style));
  states = conv(graph, states, { from: to, to, size: 3 });
  if (from !== to) shortcut = conv(graph, shortcut, { from, to });
  return graph.add("Mul", [graph.add("Add", [states, shortcut]), graph.float(Math.SQRT1_2)]);
}

/** The vocoder's residual block, with the activation `x + sin²(αx) / α`. */
export function snakeBlock(
  graph: TwinGraph,
  input: string,
  { channels, size, style }: {
    readonly channels: number;
    readonly size: number;
    readonly style: string;
  },
): string {
  const snake = (value: string) => {
    const alpha = graph.add("Add", [graph.weights([1, channels, 1], 0.2), graph.float(1)]);
    const sine = graph.add("Sin", [graph.add("Mul", [alpha, value])]);
    const square = graph.add("Mul", [sine, sine]);
    return graph.add("Add", [value, graph.add("Div", [square, alpha])]);
  };
  const half = (value: string, dilation: number) =>
    conv(graph, snake(adaIn(graph, value, channels, style)), {
      from: channels,
      to: channels,
      size,
      dilation,
    });
  return DILATIONS.reduce(
    (value, dilation) => graph.add("Add", [value, half(half(value, dilation), 1)]),
    input,
  );
}

/** A bidirectional LSTM with `width` channels in total. */
export function biLstm(
  graph: TwinGraph,
  input: string,
  { from, width }: { readonly from: number; readonly width: number },
): string {
  const hidden = width / 2;
  const scale = 1 / Math.sqrt(hidden);
  const steps = graph.add("Transpose", [input], { attributes: { perm: [2, 0, 1] } });
  const states = graph.add("LSTM", [
    steps,
    graph.weights([2, 4 * hidden, from], scale),
    graph.weights([2, 4 * hidden, hidden], scale),
    graph.weights([2, 8 * hidden], scale),
  ], { attributes: { hidden_size: hidden, direction: "bidirectional" } });
  const turned = graph.add("Transpose", [states], { attributes: { perm: [2, 1, 3, 0] } });
  return graph.add("Reshape", [turned, graph.ints([1, width, -1])]);
}

/** Appends a style to the channels of each frame of `like`. */
export function withStyle(graph: TwinGraph, like: string, style: string): string {
  const column = graph.add("Unsqueeze", [style, graph.ints([2])]);
  const frames = graph.add("Shape", [like], { attributes: { start: 2 } });
  const shape = graph.add("Concat", [graph.ints([1, STYLE]), frames], { attributes: { axis: 0 } });
  const wide = graph.add("Expand", [column, shape]);
  return graph.add("Concat", [like, wide], { attributes: { axis: 1 } });
}
