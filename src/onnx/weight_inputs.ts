/**
 * Makes inputs of a graph's large weights, so that it reads them where they lie instead of holding a copy.
 *
 * ONNX Runtime prepares a graph by its constants: it folds what they alone decide (transposes, casts, zero points), lays
 * out the weights of convolutions anew, and looks into sizes and axes. An input is unknown to it until it runs. So only
 * those weights become inputs that its WebGPU kernels read as they are, whether constant or not:
 *
 * | operator      | inputs                      |
 * | ------------- | --------------------------- |
 * | `MatMulNBits` | `B`, `scales`, `zero_points` |
 * | `MatMul`      | `B`                         |
 * | `Gemm`        | `B`                         |
 *
 * Constants stay: what any other operator reads too (`Gather`, `GatherBlockQuantized`, `Conv`, `MoE`, `Transpose`,
 * `Cast` …), the scales of norms, biases, rotary tables, and whatever is small: each input costs a few microseconds at
 * every run.
 *
 * @module
 */
import { storedBytes } from "./external_data.ts";
import type { ModelProto, Node, Tensor } from "./proto.ts";
import { makeValueInfo } from "./proto_write.ts";

/** Smaller constants stay in the graph. */
const MIN_BYTES = 32 * 1024;

/** Which inputs of an operator may be inputs of the graph. */
const READ_AS_THEY_ARE: ReadonlyMap<string, readonly number[]> = new Map([
  ["com.microsoft:MatMulNBits", [1, 2, 3]],
  [":MatMul", [1]],
  [":Gemm", [1]],
]);

const DTYPES: ReadonlySet<string> = new Set(["uint8", "float16", "float32"]);

/** A graph that is given some of its weights at every run. */
export interface WeightInputs {
  readonly model: ModelProto;
  /** Inputs of the graph that were constants, under the same names. */
  readonly weights: readonly Tensor[];
}

/** Makes inputs of the weights that the table of the module names. */
export function liftWeights(model: ModelProto): WeightInputs {
  const { graph } = model;
  const kept = new Set(graph.nodes.flatMap(namesOfConstants));
  const isLifted = (tensor: Tensor) =>
    !kept.has(tensor.name) && DTYPES.has(tensor.dtype) && storedBytes(tensor) >= MIN_BYTES;
  const weights = graph.initializers.filter(isLifted);
  const inputs = weights.map(({ name, dtype, shape }) => makeValueInfo(name, dtype, shape));
  return {
    model: {
      ...model,
      graph: {
        ...graph,
        initializers: graph.initializers.filter((tensor) => !isLifted(tensor)),
        inputs: [...graph.inputs, ...inputs],
      },
    },
    weights,
  };
}

/** Inputs of a node that must be constants, if they are any. */
function namesOfConstants({ domain, opType, inputs }: Node): string[] {
  const free = READ_AS_THEY_ARE.get(`${domain}:${opType}`) ?? [];
  return inputs.filter((_, index) => !free.includes(index));
}
