/**
 * Fits a graph to ONNX Runtime's WebGPU provider.
 *
 * @module
 */
import { countStoredBytes } from "../file/tensor.ts";
import { listReads } from "../graph_index.ts";
import {
  getOpset,
  type Graph,
  hasSubgraph,
  makeNode,
  type ModelProto,
  type Node,
  readIntAttribute,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_codec.ts";

/** Constants of fewer bytes stay in the graph. */
const MIN_BYTES = 32 * 1024;

/** A graph that is not cut keeps its weights if they have fewer bytes: an input costs a few microseconds per run. */
const MIN_GRAPH_BYTES = 32 * 2 ** 20;

/** Indices of an operator's inputs that may be inputs of the graph: `B`, `scales` and `zero_points`. */
const READ_UNCHANGED: ReadonlyMap<string, readonly number[]> = new Map([
  ["com.microsoft:MatMulNBits", [1, 2, 3]],
  [":MatMul", [1]],
  [":Gemm", [1]],
]);

const DTYPES: ReadonlySet<string> = new Set(["uint8", "float16", "float32"]);

/** A graph that takes some of its weights as inputs. */
export interface WeightInputs {
  readonly model: ModelProto;
  /** Inputs of the graph that were constants, under the same names. */
  readonly weights: readonly Tensor[];
}

/**
 * Applies {@linkcode liftWeights} to graphs with at least 32 MiB of large weights. Other graphs are unchanged, and so
 * are graphs with nested graphs, which may read constants of the outer graph.
 */
export function liftLargeWeights(model: ModelProto): WeightInputs {
  const left = { model, weights: [] };
  if (model.graph.nodes.some(hasSubgraph)) return left;
  const lifted = liftWeights(model);
  const bytes = lifted.weights.reduce((sum, tensor) => sum + countStoredBytes(tensor), 0);
  return bytes >= MIN_GRAPH_BYTES ? lifted : left;
}

/**
 * Turns large weights of a graph into inputs, so that it reads the caller's buffers instead of holding a copy.
 *
 * When a session opens, ONNX Runtime folds constants, repacks the weights of convolutions, and reads sizes and axes. It
 * cannot do that with inputs, which it does not know before a run. So only weights that its WebGPU kernels read
 * unchanged become inputs: those in `READ_UNCHANGED`.
 *
 * Weights stay constants if they are small, because each input costs a few microseconds per run, or if another operator
 * reads them too (`Gather`, `GatherBlockQuantized`, `Conv`, `MoE`, `Transpose`, `Cast` …).
 */
export function liftWeights(model: ModelProto): WeightInputs {
  const { graph } = model;
  const kept = new Set(graph.nodes.flatMap(listConstantInputs));
  const isLifted = (tensor: Tensor) =>
    !kept.has(tensor.name) && DTYPES.has(tensor.dtype) && countStoredBytes(tensor) >= MIN_BYTES;
  const weights = graph.initializers.filter(isLifted);
  const inputs = weights.map(({ name, dtype, shape }) => makeValueInfo(name, dtype, shape));
  return {
    model: withGraph(model, {
      initializers: graph.initializers.filter((tensor) => !isLifted(tensor)),
      inputs: [...graph.inputs, ...inputs],
    }),
    weights,
  };
}

/** Inputs of a node that must stay constant. */
function listConstantInputs({ domain, opType, inputs }: Node): string[] {
  const free = READ_UNCHANGED.get(`${domain}:${opType}`) ?? [];
  return inputs.filter((_, index) => !free.includes(index));
}

/** From this opset on, `Sum` broadcasts its inputs as `Add` does. */
const BROADCASTING = 8;

/**
 * Replaces each `Sum` by additions of two tensors, in the same order. ONNX Runtime has no WebGPU kernel for `Sum`: it
 * would first copy all inputs from the GPU, and add them on the CPU.
 */
export function sumsToAdditions(model: ModelProto): ModelProto {
  const isSum = ({ opType, domain }: Node) => opType === "Sum" && domain === "";
  if (getOpset(model) < BROADCASTING || !model.graph.nodes.some(isSum)) return model;
  const nodes = model.graph.nodes.flatMap((node) => isSum(node) ? toAdditions(node) : [node]);
  return withGraph(model, { nodes });
}

function toAdditions({ name, inputs, outputs: [output] }: Node): Node[] {
  const [first, ...others] = inputs;
  if (others.length === 0) return [makeNode("Identity", [first!], [output!], { name })];
  const partial = (i: number) => i === others.length - 1 ? output! : `${output}/sum_${i}`;
  return others.map((input, i) =>
    makeNode("Add", [i === 0 ? first! : partial(i - 1), input], [partial(i)], {
      name: `${name}/${i}`,
    })
  );
}

/**
 * Declares tables of `GatherBlockQuantized` as 4-bit numbers if they have zero points and each byte holds two values.
 * ONNX Runtime's WebGPU kernel wants as many zero points as scales. In a table of bytes it would count the bytes, each
 * of which holds two zero points.
 */
export function bytesToNibbles(model: ModelProto): ModelProto {
  const { graph } = model;
  const constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  const added = new Map<string, Tensor>();
  const nodes = graph.nodes.map((node) => {
    if (node.opType !== "GatherBlockQuantized" || (readIntAttribute(node, "bits") ?? 4) !== 4) {
      return node;
    }
    const [values, , scales, zeroPoints] = node.inputs.map((name) => constants.get(name));
    const width = values?.shape.at(-1);
    const isInBytes = values?.dtype === "uint8" && zeroPoints?.dtype === "uint8";
    if (!isInBytes || width === undefined || scales?.shape.length !== 2) return node;
    const table = toNibbles(values, [values.shape[0]!, 2 * width]);
    const zeros = toNibbles(zeroPoints, scales.shape as [number, number]);
    for (const tensor of [table, zeros]) added.set(tensor.name, tensor);
    return { ...node, inputs: [table.name, node.inputs[1]!, scales.name, zeros.name] };
  });
  if (added.size === 0) return model;
  return withGraph(model, {
    nodes,
    initializers: [...withoutUnread(graph, nodes), ...added.values()],
  });
}

/** The constants of a graph, without those that were only read by nodes that have been replaced. */
function withoutUnread(graph: Graph, nodes: readonly Node[]): Tensor[] {
  const [before, after] = [graph.nodes, nodes].map((each) => new Set(each.flatMap(listReads)));
  const given = new Set(graph.outputs.map(({ name }) => name));
  return graph.initializers.filter(({ name }) =>
    after!.has(name) || given.has(name) || !before!.has(name)
  );
}

/**
 * Declares bytes of two values as 4-bit numbers. In `tensor`, each row begins at a whole byte; the result has no
 * padding.
 */
function toNibbles(tensor: Tensor, [rows, columns]: readonly [number, number]): Tensor {
  const common = {
    name: `${tensor.name}/nibbles`,
    dtype: "uint4",
    shape: [rows, columns],
  } as const;
  if (columns % 2 === 0) return { ...common, data: tensor.data, rest: [] };
  const bytesPerRow = (columns + 1) / 2;
  const compute = ([bytes]: readonly Uint8Array[], into: Uint8Array) => {
    into.fill(0);
    for (let i = 0; i < rows * columns; i++) {
      const [row, column] = [Math.floor(i / columns), i % columns];
      const byte = bytes![row * bytesPerRow + (column >> 1)]!;
      into[i >> 1]! |= (byte >> 4 * (column % 2) & 15) << 4 * (i % 2);
    }
  };
  const length = Math.ceil(rows * columns / 2);
  return { ...common, data: { kind: "computed", sources: [tensor], compute, length }, rest: [] };
}
