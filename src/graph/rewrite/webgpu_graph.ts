/**
 * Fits a graph to ONNX Runtime's WebGPU provider.
 *
 * @module
 */
import { storedBytes } from "../file/stored_tensor.ts";
import {
  getOpset,
  hasSubgraph,
  makeNode,
  type ModelProto,
  type Node,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_write.ts";

/** Smaller constants stay in the graph. */
const MIN_BYTES = 32 * 1024;

/** A graph by itself keeps its weights if they are smaller: an input costs a few microseconds per run. */
const MIN_GRAPH_BYTES = 32 * 2 ** 20;

/** Which inputs of an operator may be inputs of the graph: `B`, `scales` and `zero_points`. */
const READ_AS_THEY_ARE: ReadonlyMap<string, readonly number[]> = new Map([
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
 * Applies {@linkcode liftWeights} to graphs with many large weights. Others stay as they are, and so do graphs with
 * nested graphs, which may read the outer one's constants.
 */
export function liftLargeWeights(model: ModelProto): WeightInputs {
  const left = { model, weights: [] };
  if (model.graph.nodes.some(hasSubgraph)) return left;
  const lifted = liftWeights(model);
  const bytes = lifted.weights.reduce((sum, tensor) => sum + storedBytes(tensor), 0);
  return bytes >= MIN_GRAPH_BYTES ? lifted : left;
}

/**
 * Turns a graph's large weights into inputs, so that it reads the caller's buffers instead of holding a copy.
 *
 * ONNX Runtime optimizes a graph by its constants: it folds them (transposes, casts, zero points), repacks convolution
 * weights, and reads sizes and axes. Inputs are unknown until a run. So only those weights become inputs that its
 * WebGPU kernels read as they are, whether constant or not: `READ_AS_THEY_ARE`.
 *
 * These stay constants: what any other operator reads too (`Gather`, `GatherBlockQuantized`, `Conv`, `MoE`,
 * `Transpose`, `Cast` …), the scales of norms, biases, rotary tables, and small tensors: each input costs a few
 * microseconds per run.
 */
export function liftWeights(model: ModelProto): WeightInputs {
  const { graph } = model;
  const kept = new Set(graph.nodes.flatMap(listConstantInputs));
  const isLifted = (tensor: Tensor) =>
    !kept.has(tensor.name) && DTYPES.has(tensor.dtype) && storedBytes(tensor) >= MIN_BYTES;
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
  const free = READ_AS_THEY_ARE.get(`${domain}:${opType}`) ?? [];
  return inputs.filter((_, index) => !free.includes(index));
}

/** From this opset on, `Sum` broadcasts its inputs as `Add` does. */
const BROADCASTING = 8;

/**
 * Replaces sums of several tensors with additions of two, in the same order. ONNX Runtime has no WebGPU kernel for `Sum`:
 * each would be computed on the CPU, with all its inputs read back from the GPU first.
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
