/**
 * Unifies background-removal graphs: one input, and one f32 output in which 1 is the subject and 0 the background.
 *
 * Exports differ: some return probabilities and some logits, some return masks of every scale, some take float16. Where
 * the graph's nodes show these properties, they are not guessed from the values of a mask: otherwise an image whose
 * logits happen to lie between 0 and 1 would be treated differently.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { findLiveNodes, GraphIndex } from "../../graph/graph_index.ts";
import {
  getOpset,
  type Graph,
  int64Tensor,
  makeNode,
  type ModelProto,
  type Node,
  withGraph,
} from "../../graph/file/proto.ts";
import { makeValueInfo } from "../../graph/file/proto_codec.ts";
import type { MattingFamily } from "./matting_family.ts";
import type { Levels, Size } from "../folder/preprocessor_config.ts";

/** Name of the unified graph's input: images. */
export const IMAGES = "hearth_images";
/** Name of the unified graph's output: masks. */
export const MASKS = "hearth_masks";

/** The kinds of a graph's output values. */
type MaskValues = "probabilities" | "logits" | "unknown";

/** The properties of a background-removal graph. */
export interface MattingGraph {
  readonly layout: "nchw" | "nhwc";
  /** Size of the input images, if fixed. */
  readonly size: Size | undefined;
  readonly takesBatches: boolean;
  readonly input: string;
  readonly output: string;
  readonly values: MaskValues;
}

const MASK_NAMES = ["alphas", "alpha", "pha", "output_image", "output", "mask", "logits", "d0"];
/** Operators that keep the values of a tensor and change only its layout or type. */
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
/** Since this opset, `ReduceMax` takes its axes as an input. */
const AXES_INPUT_VERSION = 18;
/** Masks are stretched at most tenfold, so that noise does not become a subject. */
const LEAST_RANGE = 0.1;
/** The least divisor for levels, which is used for black images. */
const LEAST_LEVEL = 1e-6;
/** Name of the images whose levels are relative. */
const LEVELED = "hearth_leveled";

/** Reads the properties of a graph. @throws {StartupError} when it does not take images, or has no output. */
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
      `A background-removal graph must have one input [batch, 3, height, width]; this one has ${
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
    values: findValues(index, output),
  };
}

function findMask(graph: Graph, { mask }: MattingFamily, wished: string | undefined): string {
  const names = graph.outputs.map(({ name }) => name);
  const named = [wished, ...MASK_NAMES].find((name) => name !== undefined && names.includes(name));
  const found = named ?? (mask === "last" ? names.at(-1) : names[0]);
  if (found !== undefined) return found;
  throw new StartupError("The graph has no output.");
}

/** Finds the kind of values in a tensor by the node that computes them. Nodes that keep values are skipped. */
function findValues(index: GraphIndex, tensor: string): MaskValues {
  let name = tensor;
  for (;;) {
    const node = index.producers.get(name);
    if (node === undefined) return "unknown";
    if (SQUASHING.has(node.opType)) return "probabilities";
    if (LINEAR.has(node.opType)) return "logits";
    const passed = PASSED.has(node.opType) ? node.inputs[0] : findAddend(index, node);
    if (passed === undefined) return "unknown";
    name = passed;
  }
}

/** Finds the tensor to which a node adds a constant. */
function findAddend(
  { constants, producers }: GraphIndex,
  { opType, inputs }: Node,
): string | undefined {
  const isConstant = (name: string) =>
    constants.has(name) || producers.get(name)?.opType === "Constant";
  if (opType !== "Add" || !inputs.some(isConstant)) return undefined;
  return inputs.find((name) => !isConstant(name));
}

/** The conversions that a unified graph needs. */
interface UnifiedPorts {
  readonly isLogits: boolean;
  readonly stretches: boolean;
  /**
   * If given, images are levels from 0 to 1, and the graph computes `(level / brightest) · scale + offset` by channel.
   */
  readonly relative?: Levels | undefined;
}

/** Changes the graph so that {@linkcode IMAGES} is its only input and {@linkcode MASKS} its only output. */
export function unifyMatting(
  model: ModelProto,
  { input, output, layout }: MattingGraph,
  { isLogits, stretches, relative }: UnifiedPorts,
): ModelProto {
  const { graph } = model;
  const taken = graph.inputs.find(({ name }) => name === input)!;
  const given = graph.outputs.find(({ name }) => name === output)!;
  const leveling = relative === undefined
    ? { nodes: [], initializers: [] }
    : makeLevelNodes(model, { layout, ...relative });
  const images = relative === undefined ? IMAGES : LEVELED;
  const taking = taken.dtype === "float16"
    ? makeNode("Cast", [images], [input], { attributes: { to: 10 } })
    : makeNode("Identity", [images], [input]);
  const masks = stretches ? "hearth_levels" : MASKS;
  const squash = isLogits
    ? [
      makeNode("Cast", [output], ["hearth_logits"], { attributes: { to: 1 } }),
      makeNode("Sigmoid", ["hearth_logits"], [masks]),
    ]
    : [makeNode("Cast", [output], [masks], { attributes: { to: 1 } })];
  const stretching = stretches
    ? makeStretchNodes(model, { levels: masks, rank: given.shape?.length ?? 4 })
    : { nodes: [], initializers: [] };
  const nodes = [...leveling.nodes, taking, ...graph.nodes, ...squash, ...stretching.nodes];
  const constants = new Set(graph.initializers.map(({ name }) => name));
  return withGraph(model, {
    nodes: findLiveNodes(nodes, [MASKS]),
    initializers: [
      ...graph.initializers,
      ...leveling.initializers,
      ...stretching.initializers,
    ],
    inputs: [
      makeValueInfo(IMAGES, "float32", toSymbolicShape(taken.shape)),
      ...graph.inputs.filter(({ name }) => constants.has(name)),
    ],
    outputs: [makeValueInfo(MASKS, "float32", toSymbolicShape(given.shape))],
  });
}

function toSymbolicShape(
  shape: readonly (number | string | undefined)[] = [],
): (number | string)[] {
  return shape.map((size, axis) => size ?? `size_${axis}`);
}

/** Makes a node that reduces over axes and keeps them with size 1. */
function makeReduceNode(
  model: ModelProto,
  opType: "ReduceMax" | "ReduceMin",
  { from, to, axes, axesName }: {
    readonly from: string;
    readonly to: string;
    readonly axes: readonly number[];
    readonly axesName: string;
  },
): Node {
  return getOpset(model) >= AXES_INPUT_VERSION
    ? makeNode(opType, [from, axesName], [to], { attributes: { keepdims: 1 } })
    : makeNode(opType, [from], [to], { attributes: { keepdims: 1, axes: [...axes] } });
}

/** Makes nodes that compute `x / max(brightest, LEAST_LEVEL) · scale + offset` for each image of a batch. */
function makeLevelNodes(
  model: ModelProto,
  { layout, scale, offset }: Levels & Pick<MattingGraph, "layout">,
): Pick<Graph, "nodes" | "initializers"> {
  const axes = [1, 2, 3];
  const shape = layout === "nchw" ? [1, 3, 1, 1] : [1, 1, 1, 3];
  const brightest = { from: IMAGES, to: "hearth_brightest", axes, axesName: "hearth_image_axes" };
  return {
    nodes: [
      makeReduceNode(model, "ReduceMax", brightest),
      makeNode("Max", ["hearth_brightest", "hearth_least_level"], ["hearth_white"]),
      makeNode("Div", [IMAGES, "hearth_white"], ["hearth_relative"]),
      makeNode("Mul", ["hearth_relative", "hearth_scale"], ["hearth_scaled"]),
      makeNode("Add", ["hearth_scaled", "hearth_offset"], [LEVELED]),
    ],
    initializers: [
      int64Tensor("hearth_image_axes", [axes.length], axes),
      makeFloatTensor("hearth_least_level", [1], [LEAST_LEVEL]),
      makeFloatTensor("hearth_scale", shape, scale),
      makeFloatTensor("hearth_offset", shape, offset),
    ],
  };
}

/** Makes nodes that compute `(x − min) / max(max − min, LEAST_RANGE)` for each mask of a batch. */
function makeStretchNodes(
  model: ModelProto,
  { levels, rank }: { levels: string; rank: number },
): Pick<Graph, "nodes" | "initializers"> {
  const axes = [1, 2, 3].slice(0, rank - 1);
  const options = { from: levels, axes, axesName: "hearth_axes" };
  return {
    nodes: [
      makeReduceNode(model, "ReduceMax", { ...options, to: "hearth_highest" }),
      makeReduceNode(model, "ReduceMin", { ...options, to: "hearth_lowest" }),
      makeNode("Sub", ["hearth_highest", "hearth_lowest"], ["hearth_range"]),
      makeNode("Max", ["hearth_range", "hearth_least_range"], ["hearth_divisor"]),
      makeNode("Sub", [levels, "hearth_lowest"], ["hearth_raised"]),
      makeNode("Div", ["hearth_raised", "hearth_divisor"], [MASKS]),
    ],
    initializers: [
      int64Tensor("hearth_axes", [axes.length], axes),
      makeFloatTensor("hearth_least_range", [1], [LEAST_RANGE]),
    ],
  };
}

function makeFloatTensor(
  name: string,
  shape: number[],
  values: readonly number[],
): Graph["initializers"][number] {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  return { name, dtype: "float32", shape, data: { kind: "memory", bytes }, rest: [] };
}
