/**
 * Normalizes a background-removal graph's result: one output, f32, in which 1 is the subject and 0 the background.
 *
 * Exports differ: some end in a sigmoid and some in logits, some have the masks of every scale, some take float16. The
 * kind of values is determined from its nodes, not from its values: an image whose values happen to lie within 0 and 1,
 * or just beyond, must not be treated differently.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { GraphIndex, liveNodes } from "../../graph/graph_index.ts";
import {
  type Graph,
  int64Tensor,
  makeNode,
  type ModelProto,
  type Node,
  opsetOf,
} from "../../graph/file/proto.ts";
import { makeValueInfo } from "../../graph/file/proto_write.ts";
import type { MattingFamily } from "./matting_family.ts";
import type { Size } from "../folder/preprocessor_config.ts";

/** Names of the graph's input and output. */
export const IMAGES = "hearth_images";
/** See {@linkcode IMAGES}. */
export const MASKS = "hearth_masks";

/** The kinds of a graph's output values. */
type MaskValues = "probabilities" | "logits" | "unknown";

export interface MattingGraph {
  readonly layout: "nchw" | "nhwc";
  /** Size of its input, if fixed. */
  readonly size: Size | undefined;
  readonly takesBatches: boolean;
  readonly input: string;
  readonly output: string;
  readonly values: MaskValues;
}

const MASK_NAMES = ["alphas", "alpha", "pha", "output_image", "output", "mask", "logits", "d0"];
/** Operators that change neither which values there are nor their range. */
const PASSED = new Set([
  "Identity",
  "Cast",
  "Reshape",
  "Squeeze",
  "Unsqueeze",
  "Transpose",
  "Slice",
  "Flatten",
]);
const SQUASHING = new Set(["Sigmoid", "HardSigmoid", "Softmax"]);
const LINEAR = new Set(["Conv", "ConvTranspose", "Gemm", "MatMul"]);
/** `ReduceMax` takes its axes as an input from this version of the operators on. */
const AXES_INPUT_VERSION = 18;
/** A mask is stretched at most tenfold: without a subject, noise must not become one. */
const LEAST_RANGE = 0.1;

/** @throws {StartupError} when the graph does not take images, or has no mask. */
export function inspectMatting(
  { graph }: ModelProto,
  { family, outputName }: { family: MattingFamily; outputName: string | undefined },
): MattingGraph {
  const index = new GraphIndex(graph);
  const [input, ...more] = index.inputs.values();
  const shape = input?.shape;
  if (input === undefined || more.length > 0 || shape?.length !== 4) {
    const seen = [...index.inputs.values()].map(({ name, shape }) => `${name} [${shape ?? ""}]`);
    throw new StartupError(
      `A background-removal graph wants one input [batch, 3, height, width]; this one has ${
        seen.join(", ") || "none"
      }.`,
    );
  }
  const [batch] = shape;
  if (typeof batch === "number" && batch > 1) {
    throw new StartupError(
      `The model cannot be used for background removal: its graph takes ${batch} images at a time, not one.`,
    );
  }
  const layout = shape[1] !== 3 && shape[3] === 3 ? "nhwc" : "nchw";
  const [height, width] = layout === "nhwc" ? [shape[1], shape[2]] : [shape[2], shape[3]];
  const output = findMask(graph, family, outputName);
  return {
    layout,
    size: typeof width === "number" && typeof height === "number" && width > 0 && height > 0
      ? { width, height }
      : undefined,
    takesBatches: typeof shape[0] !== "number",
    input: input.name,
    output,
    values: valuesOf(index, output),
  };
}

function findMask(graph: Graph, { mask }: MattingFamily, wished: string | undefined): string {
  const names = graph.outputs.map(({ name }) => name);
  const named = [wished, ...MASK_NAMES].find((name) => name !== undefined && names.includes(name));
  const found = named ?? (mask === "last" ? names.at(-1) : names[0]);
  if (found !== undefined) return found;
  throw new StartupError("The graph has no output.");
}

/** The value kind by the node that computes the tensor, looking through nodes that pass values on. */
function valuesOf(index: GraphIndex, tensor: string): MaskValues {
  let name = tensor;
  for (;;) {
    const node = index.producers.get(name);
    if (node === undefined) return "unknown";
    if (SQUASHING.has(node.opType)) return "probabilities";
    if (LINEAR.has(node.opType)) return "logits";
    const passed = PASSED.has(node.opType) ? node.inputs[0] : addendOf(index, node);
    if (passed === undefined) return "unknown";
    name = passed;
  }
}

/** The other operand of a bias addition. */
function addendOf(
  { constants, producers }: GraphIndex,
  { opType, inputs }: Node,
): string | undefined {
  const isConstant = (name: string) =>
    constants.has(name) || producers.get(name)?.opType === "Constant";
  if (opType !== "Add" || !inputs.some(isConstant)) return undefined;
  return inputs.find((name) => !isConstant(name));
}

/** Gives the graph its one input {@linkcode IMAGES} and its one output {@linkcode MASKS}. */
export function unifyMatting(
  model: ModelProto,
  { input, output }: MattingGraph,
  { isLogits, stretches }: { isLogits: boolean; stretches: boolean },
): ModelProto {
  const { graph } = model;
  const taken = graph.inputs.find(({ name }) => name === input)!;
  const given = graph.outputs.find(({ name }) => name === output)!;
  const taking = taken.dtype === "float16"
    ? makeNode("Cast", [IMAGES], [input], { attributes: { to: 10 } })
    : makeNode("Identity", [IMAGES], [input]);
  const masks = stretches ? "hearth_levels" : MASKS;
  const squash = isLogits
    ? [
      makeNode("Cast", [output], ["hearth_logits"], { attributes: { to: 1 } }),
      makeNode("Sigmoid", ["hearth_logits"], [masks]),
    ]
    : [makeNode("Cast", [output], [masks], { attributes: { to: 1 } })];
  const stretching = stretches
    ? stretch(model, { levels: masks, rank: given.shape?.length ?? 4 })
    : { nodes: [], initializers: [] };
  const nodes = [taking, ...graph.nodes, ...squash, ...stretching.nodes];
  const constants = new Set(graph.initializers.map(({ name }) => name));
  return {
    ...model,
    graph: {
      ...graph,
      nodes: liveNodes(nodes, [MASKS]),
      initializers: [...graph.initializers, ...stretching.initializers],
      inputs: [
        makeValueInfo(IMAGES, "float32", symbolic(taken.shape)),
        ...graph.inputs.filter(({ name }) => constants.has(name)),
      ],
      outputs: [makeValueInfo(MASKS, "float32", symbolic(given.shape))],
    },
  };
}

function symbolic(shape: readonly (number | string | undefined)[] = []): (number | string)[] {
  return shape.map((size, axis) => size ?? `size_${axis}`);
}

/** Each mask of a batch by itself: `(x − min) / max(max − min, LEAST_RANGE)`. */
function stretch(
  model: ModelProto,
  { levels, rank }: { levels: string; rank: number },
): Pick<Graph, "nodes" | "initializers"> {
  const axes = [1, 2, 3].slice(0, rank - 1);
  const reduce = (opType: string, to: string) =>
    opsetOf(model) >= AXES_INPUT_VERSION
      ? makeNode(opType, [levels, "hearth_axes"], [to], { attributes: { keepdims: 1 } })
      : makeNode(opType, [levels], [to], { attributes: { keepdims: 1, axes } });
  const leastRange = new Uint8Array(Float32Array.of(LEAST_RANGE).buffer);
  return {
    nodes: [
      reduce("ReduceMax", "hearth_highest"),
      reduce("ReduceMin", "hearth_lowest"),
      makeNode("Sub", ["hearth_highest", "hearth_lowest"], ["hearth_range"]),
      makeNode("Max", ["hearth_range", "hearth_least_range"], ["hearth_divisor"]),
      makeNode("Sub", [levels, "hearth_lowest"], ["hearth_raised"]),
      makeNode("Div", ["hearth_raised", "hearth_divisor"], [MASKS]),
    ],
    initializers: [
      int64Tensor("hearth_axes", [axes.length], axes),
      {
        name: "hearth_least_range",
        dtype: "float32",
        shape: [1],
        data: { kind: "memory", bytes: leastRange },
        rest: [],
      },
    ],
  };
}
