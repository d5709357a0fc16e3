/**
 * Layers with a state in addition to keys and values, in the operators of exporters, for tests of the cut.
 *
 * @module
 */
import { makeNode, type Node, type ValueInfo } from "../../../src/graph/file/proto.ts";
import { writeModel } from "../../../src/graph/file/proto_codec.ts";
import { MessageWriter, readFields } from "../../../src/graph/file/wire.ts";
import { constant, type Declared } from "../../fixtures/graphs/onnx_builder.ts";
import type { DecoderBuilder } from "./test_decoder.ts";

const MICROSOFT = "com.microsoft";

/** A layer: a function from rows `[1, tokens, hidden]` to such rows, and its states. */
export interface StateLayer {
  readonly states: readonly Declared[];
  add(graph: DecoderBuilder, input: string): string;
}

/** Declares the past and present tensors of a layer's states. */
export function statePorts(layer: StateLayer): { inputs: Declared[]; outputs: Declared[] } {
  return {
    inputs: [...layer.states],
    outputs: layer.states.map(([name, dtype, shape = []]) => [makePresent(name), dtype, shape]),
  };
}

function makePresent(past: string): string {
  return past.replace("past", "present");
}

const swap = (graph: DecoderBuilder, rows: string) =>
  graph.add("Transpose", [rows], { attributes: { perm: [0, 2, 1] } });

/** A convolution with weights of 8 bits, which have a scale and a zero point. */
function convolveLevels(
  graph: DecoderBuilder,
  x: string,
  { shape, attributes, levels }: {
    readonly shape: readonly number[];
    readonly attributes: Readonly<Record<string, number | readonly number[]>>;
    readonly levels: "integers" | "values";
  },
): string {
  const [zero, scale] = [5, 0.004];
  const own = Int8Array.from({ length: shape[0]! * shape[2]! }, (_, i) => (i * 37) % 255 - 127);
  const name = `${x}/weights`;
  if (levels === "values") {
    const values = Float32Array.from(own, (level) => (level - zero) * Math.fround(scale));
    return graph.add("Conv", [x, graph.constant(constant(name, shape, values))], { attributes });
  }
  const outputs = ["levels", "scale", "zero"].map((part) => `${x}/${part}`);
  graph.add("DynamicQuantizeLinear", [x], { outputs });
  const product = graph.add("ConvInteger", [
    outputs[0]!,
    graph.constant(constant(name, shape, own, "int8")),
    outputs[2]!,
    graph.constant(constant(`${name}/zero`, [], Int8Array.of(zero), "int8")),
  ], { attributes });
  const both = graph.add("Mul", [outputs[1]!, graph.float(scale)]);
  return graph.add("Mul", [graph.add("Cast", [product], { attributes: { to: 1 } }), both]);
}

/**
 * LFM2's short convolution, like in ONNX Runtime's model builder: three parts of a product, with channels first.
 *
 * @param options.isPadded whether the layer is written as in transformers: the mask hides padding, the convolution pads
 * both ends, and two slices drop the results of the padding.
 * @param options.levels gives the convolution 8-bit weights: "integers" writes it with ConvInteger, as ONNX Runtime's
 * quantiser does, "values" with the floats that the weights stand for.
 */
export function shortConvolution(
  index: number,
  { taps = 3, width = 24, isPadded = false, levels }: {
    readonly taps?: number;
    readonly width?: number;
    readonly isPadded?: boolean;
    readonly levels?: "integers" | "values";
  } = {},
): StateLayer {
  const past = `past_conv.${index}`;
  return {
    states: [[past, "float32", ["batch", width, taps]]],
    add(graph, input) {
      const length = graph.add("Gather", [graph.add("Shape", [input]), graph.ints([1], [])]);
      const start = graph.add("Unsqueeze", [graph.add("Neg", [length]), graph.ints([0])]);
      const end = graph.constant(constant("end", [1], BigInt64Array.of(2n ** 63n - 1n)));
      const hide = (rows: string) => {
        const own = graph.add("Slice", ["attention_mask", start, end, graph.ints([1])]);
        const column = graph.add("Unsqueeze", [own, graph.ints([2])]);
        return graph.add("Mul", [rows, graph.add("Cast", [column], { attributes: { to: 1 } })]);
      };
      const rows = isPadded ? hide(input) : input;
      const product = graph.add("MatMul", [rows, graph.weights([width, 3 * width], 0.3)]);
      const parts = ["b", "c", "x"].map((part) => `conv_${index}/${part}`);
      graph.add("Split", [swap(graph, product), graph.ints([width, width, width])], {
        attributes: { axis: 1 },
        outputs: parts,
      });
      const [b, c, x] = parts as [string, string, string];
      const gated = graph.add("Mul", [b, x]);
      const joined = graph.add("Concat", [past, gated], { attributes: { axis: 2 } });
      const pad = isPadded ? taps - 1 : 0;
      const attributes = { group: width, kernel_shape: [taps], pads: [pad, pad] };
      const convolved = levels !== undefined
        ? convolveLevels(graph, joined, { shape: [width, 1, taps], attributes, levels })
        : graph.add("Conv", [joined, graph.weights([width, 1, taps])], { attributes });
      const total = graph.add("Sub", [graph.ints([taps]), start]);
      const first = isPadded
        ? graph.add("Slice", [convolved, graph.ints([0]), total, graph.ints([2])])
        : convolved;
      const results = graph.add("Slice", [first, start, end, graph.ints([2])]);
      graph.add("Slice", [joined, graph.ints([-taps]), end, graph.ints([2])], {
        outputs: [makePresent(past)],
      });
      const out = swap(graph, graph.add("Mul", [c, results]));
      return graph.add("MatMul", [out, graph.weights([width, width], 0.3)]);
    },
  };
}

/**
 * Mamba-2 by `CausalConvWithState` and `LinearAttention`, like the builder mobius writes it: keys and queries of a
 * group are repeated for its heads, and inputs are scaled by the time step and by a constant for each head.
 *
 * @param options.bounds the time step's lower bound, or its lower and upper bounds.
 */
export function mamba2(
  index: number,
  { bounds, width = 24, heads = 4, groups = 2, size = 6, stateSize = 8 }: {
    readonly bounds?: readonly number[];
    readonly width?: number;
    readonly heads?: number;
    readonly groups?: number;
    readonly size?: number;
    readonly stateSize?: number;
  } = {},
): StateLayer {
  const [inner, grouped] = [heads * size, groups * stateSize];
  const channels = inner + 2 * grouped;
  const [conv, past] = [`past_conv.${index}`, `past_recurrent.${index}`];
  return {
    states: [
      [conv, "float32", ["batch", channels, 3]],
      [past, "float32", ["batch", heads, stateSize, size]],
    ],
    add(graph, input) {
      const name = (part: string) => `mamba_${index}/${part}`;
      const split = (rows: string, parts: readonly string[], sizes: readonly number[]) => {
        const outputs = parts.map(name);
        graph.add("Split", [rows, graph.ints(sizes)], { attributes: { axis: -1 }, outputs });
        return outputs;
      };
      const reshape = (rows: string, sizes: readonly number[]) =>
        graph.add("Reshape", [rows, graph.ints(sizes)]);
      const projected = graph.add("MatMul", [
        input,
        graph.weights([width, inner + channels + heads], 1),
      ]);
      const [gate, mixed, steps] = split(
        projected,
        ["gate", "mixed", "steps"],
        [inner, channels, heads],
      ) as [string, string, string];
      const convolved = graph.add("CausalConvWithState", [
        swap(graph, mixed),
        graph.weights([channels, 1, 4], 1),
        graph.weights([channels]),
        conv,
      ], {
        domain: MICROSOFT,
        attributes: { activation: "silu" },
        outputs: [name("convolved"), makePresent(conv)],
      });
      const [x, b, c] = split(swap(graph, convolved), ["x", "b", "c"], [
        inner,
        grouped,
        grouped,
      ]) as [
        string,
        string,
        string,
      ];
      const softplus = graph.add("Softplus", [graph.add("Add", [steps, graph.weights([heads])])]);
      const time = bounds
        ? graph.add("Clip", [softplus, ...bounds.map((bound) => graph.float(bound))])
        : softplus;
      const rate = graph.add("Neg", [graph.add("Exp", [graph.weights([heads])])]);
      const ofHeads = reshape(x, [0, 0, heads, size]);
      const scaled = graph.add("Mul", [
        graph.add("Unsqueeze", [time, graph.ints([-1])]),
        ofHeads,
      ]);
      const repeat = (rows: string) => {
        const apart = reshape(rows, [0, 0, groups, 1, stateSize]);
        const wide = graph.add("Expand", [apart, graph.ints([1, 1, 1, heads / groups, 1])]);
        return reshape(wide, [0, 0, heads * stateSize]);
      };
      const attended = graph.add("LinearAttention", [
        ...[repeat(c), repeat(b), reshape(scaled, [0, 0, inner]), past],
        graph.add("Mul", [rate, time]),
      ], {
        domain: MICROSOFT,
        attributes: {
          ...{ q_num_heads: heads, kv_num_heads: heads, update_rule: "gated" },
          scale: { float: 1 },
        },
        outputs: [name("attended"), makePresent(past)],
      });
      const factors = reshape(graph.weights([heads], 1), [1, 1, heads, 1]);
      const skipped = reshape(graph.add("Mul", [factors, ofHeads]), [0, 0, inner]);
      const gated = graph.add("Mul", [
        graph.add("Add", [attended, skipped]),
        graph.add("Mul", [gate, graph.add("Sigmoid", [gate])]),
      ]);
      return graph.add("MatMul", [gated, graph.weights([inner, width], 1)]);
    },
  };
}

/** Sizes of a linear attention. */
interface LinearSizes {
  readonly heads: number;
  readonly keyHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
}

const SIZES: LinearSizes = { heads: 4, keyHeads: 2, keyDim: 8, valueDim: 6 };

/**
 * The gated delta rule by `CausalConvWithState` and `LinearAttention`, as ONNX Runtime's model builder writes Qwen3.5;
 * optionally with the fused operators of exports for CUDA.
 */
export function gatedDelta(
  index: number,
  { width = 24, sizes = SIZES, isFused = false } = {},
): StateLayer {
  const { heads, keyHeads, keyDim, valueDim } = sizes;
  const [keys, values] = [keyHeads * keyDim, heads * valueDim];
  const channels = 2 * keys + values;
  const [conv, past] = [`past_conv.${index}`, `past_recurrent.${index}`];
  return {
    states: [
      [conv, "float32", ["batch", channels, 3]],
      [past, "float32", ["batch", heads, keyDim, valueDim]],
    ],
    add(graph, input) {
      const product = graph.add("MatMul", [input, graph.weights([width, channels], 1)]);
      const convolved = graph.add("CausalConvWithState", [
        swap(graph, product),
        graph.weights([channels, 1, 4], 1),
        graph.weights([channels]),
        conv,
      ], {
        domain: MICROSOFT,
        attributes: { ndim: 1, activation: "silu" },
        outputs: [`delta_${index}/convolved`, makePresent(conv)],
      });
      const parts = ["q", "k", "v"].map((part) => `delta_${index}/${part}`);
      graph.add("Split", [swap(graph, convolved), graph.ints([keys, keys, values])], {
        attributes: { axis: -1 },
        outputs: parts,
      });
      const [q, k, v] = parts as [string, string, string];
      const normal = (rows: string) => {
        const split = graph.add("Reshape", [rows, graph.ints([0, 0, keyHeads, keyDim])]);
        const norm = graph.add("LpNormalization", [split], { attributes: { axis: -1, p: 2 } });
        return graph.add("Reshape", [norm, graph.ints([0, 0, keys])]);
      };
      const project = (count: number) =>
        graph.add("MatMul", [input, graph.weights([width, count])]);
      const fuseGates = () => {
        const outputs = ["decay", "rate"].map((gate) => `delta_${index}/${gate}`);
        const factors = graph.constant(
          constant(`factors_${heads}`, [heads], new Float32Array(heads).fill(-0.5)),
        );
        const inputs = [project(heads), graph.weights([heads]), factors, project(heads)];
        graph.add("LinearAttentionGate", inputs, { domain: MICROSOFT, outputs });
        return outputs;
      };
      const spellGates = () => [
        graph.add("Neg", [graph.add("Softplus", [project(heads)])]),
        graph.add("Sigmoid", [project(heads)]),
      ];
      const attended = graph.add("LinearAttention", [
        ...[normal(q), normal(k), v, past],
        ...isFused ? fuseGates() : spellGates(),
      ], {
        domain: MICROSOFT,
        attributes: {
          q_num_heads: keyHeads,
          kv_num_heads: heads,
          update_rule: "gated_delta",
          scale: { float: 1 },
        },
        outputs: [`delta_${index}/attended`, makePresent(past)],
      });
      const normed = isFused
        ? graph.add("GatedRMSNorm", [attended, graph.weights([valueDim], 1), project(values)], {
          domain: MICROSOFT,
          attributes: { epsilon: { float: 1e-3 } },
        })
        : attended;
      return graph.add("MatMul", [normed, graph.weights([values, width], 1)]);
    },
  };
}

/**
 * The delta rule, or Mamba-2's recurrence, token by token in a `Scan`.
 *
 * @param options.hasProducts whether the body has matrix products and `Constant` nodes, like the builder mobius writes
 * it, instead of sums.
 */
export function scanned(
  index: number,
  { isDelta, hasProducts = false, width = 24, sizes = SIZES }: {
    readonly isDelta: boolean;
    readonly hasProducts?: boolean;
    readonly width?: number;
    readonly sizes?: LinearSizes;
  },
): StateLayer {
  const { heads, keyDim, valueDim } = sizes;
  const past = `past_ssm.${index}`;
  return {
    // Values before keys, like in Mamba-2.
    states: [[past, "float32", ["batch", heads, valueDim, keyDim]]],
    add(graph, input) {
      const project = (shape: readonly number[], kind?: string) => {
        const size = shape.reduce((product, n) => product * n, 1);
        const rows = graph.add("MatMul", [input, graph.weights([width, size], 0.15)]);
        const shaped = graph.add("Reshape", [rows, graph.ints([0, 0, ...shape])]);
        return kind === undefined ? shaped : graph.add(kind, [shaped]);
      };
      const keyHeads = isDelta ? heads : 1;
      const [q, k] = [project([keyHeads, keyDim]), project([keyHeads, keyDim])];
      const v = project([heads, valueDim]);
      const decay = project([heads], "Sigmoid");
      const rates = isDelta ? [project([heads], "Sigmoid")] : [];
      const inputs = [past, decay, v, k, q, ...rates];
      const [made, rows] = [makePresent(past), `scan_${index}/rows`];
      graph.nodes.push({
        ...makeNode("Scan", inputs, [made, rows], {
          attributes: {
            num_scan_inputs: inputs.length - 1,
            scan_input_axes: inputs.slice(1).map(() => 1),
            scan_output_axes: [1],
          },
        }),
      });
      const scan = graph.nodes.pop()!;
      const body = makeBody(isDelta, hasProducts);
      graph.nodes.push({
        ...scan,
        attributes: [...scan.attributes, { name: "body", message: body }],
      });
      const flat = graph.add("Reshape", [rows, graph.ints([0, 0, heads * valueDim])]);
      return graph.add("MatMul", [flat, graph.weights([heads * valueDim, width])]);
    },
  };
}

function ofAnyShape(name: string): ValueInfo {
  const float = new MessageWriter().int(1, 1);
  return { name, type: new MessageWriter().message(1, float).finish(), rest: [] };
}

/** `S = S * decay + (v - S k) rate ⊗ k`, or `+ v ⊗ k`, and `y = S q`. */
function makeBody(isDelta: boolean, hasProducts: boolean): Uint8Array {
  const nodes: Node[] = [];
  const add = (opType: string, inputs: readonly string[], output: string, attributes = {}) => {
    nodes.push(makeNode(opType, inputs, [output], { attributes }));
    return output;
  };
  const axes = { last: [-1], before_last: [-2] };
  if (hasProducts) {
    for (const [name, value_ints] of Object.entries(axes)) {
      add("Constant", [], name, { value_ints });
    }
  }
  const column = (name: string) => add("Unsqueeze", [name, "last"], `${name}/column`);
  const row = (name: string) => add("Unsqueeze", [name, "before_last"], `${name}/row`);
  /** The product of a matrix with a vector. */
  const multiply = (matrix: string, vector: string, output: string) => {
    if (hasProducts) {
      const product = add("MatMul", [matrix, column(vector)], `${output}/column`);
      return add("Squeeze", [product, "last"], output);
    }
    const product = add("Mul", [matrix, row(vector)], `${output}/product`);
    return add("ReduceSum", [product, "last"], output, { keepdims: 0 });
  };
  const factor = add("Unsqueeze", [column("decay_in"), "last"], "factor");
  const decayed = add("Mul", ["state_in", factor], "decayed");
  let gain = "v_in";
  if (isDelta) {
    const missed = add("Sub", ["v_in", multiply(decayed, "k_in", "held")], "missed");
    gain = add("Mul", [missed, column("rate_in")], "gain");
  }
  const operator = hasProducts ? "MatMul" : "Mul";
  const key = add("Unsqueeze", ["k_in", "before_last"], "key");
  const added = add(operator, [add("Unsqueeze", [gain, "last"], "gain_column"), key], "added");
  add("Add", [decayed, added], "state_out");
  multiply("state_out", "q_in", "y_out");
  const names = ["state_in", "decay_in", "v_in", "k_in", "q_in", ...isDelta ? ["rate_in"] : []];
  const model = writeModel({
    irVersion: 8,
    operatorSets: [],
    graph: {
      name: "body",
      nodes,
      initializers: hasProducts
        ? []
        : Object.entries(axes).map(([name, values]) =>
          constant(name, [1], BigInt64Array.from(values, BigInt))
        ),
      inputs: names.map(ofAnyShape),
      outputs: ["state_out", "y_out"].map(ofAnyShape),
      valueInfos: [],
      rest: [],
    },
    rest: [],
  });
  const field = [...readFields(model)].find(({ number }) => number === 7)!;
  return new MessageWriter().text(1, "body").bytes(6, field.payload).int(20, 5).finish();
}
