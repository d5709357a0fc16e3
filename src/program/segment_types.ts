/**
 * The data types that a segment computes in.
 *
 * @module
 */
import { countElements } from "../graph/file/dtype.ts";
import type { Segment, TensorPort } from "../graph/graph_cut.ts";
import type { GraphIndex } from "../graph/graph_index.ts";
import { Refusal } from "../graph/refusal.ts";
import { transposedConstant } from "./matrices.ts";
import { type Rows, toElem } from "./program_builder.ts";

/**
 * The data type that a segment computes in: that of its first weights, or of its first output if it has no weights.
 *
 * @throws {Refusal} when one of these has another type than f32 or f16.
 */
export function findDtype(index: GraphIndex, { outputs, model }: Segment): "float32" | "float16" {
  const operands = model.graph.nodes.flatMap(({ opType, inputs }) =>
    opType === "MatMulNBits" ? inputs[2]! : ["MatMul", "Gemm"].includes(opType) ? inputs[1]! : []
  );
  const found = operands.flatMap((name) =>
    (index.constants.get(name) ?? transposedConstant(index, name))?.dtype ?? []
  );
  const dtypes = new Set(found.length > 0 ? found : outputs.map((output) => output.dtype));
  const others = [...dtypes].filter((each) => each !== "float32" && each !== "float16");
  const [dtype] = dtypes;
  if (others.length === 0 && (dtype === "float32" || dtype === "float16")) return dtype;
  throw new Refusal(`It computes in ${[...dtypes].join(" and ")}.`);
}

/** The rows of a tensor that enters a segment. @throws {Refusal} when its data type is not a float. */
export function rowsOfPort({ name, dtype, shape }: TensorPort): Rows {
  if (dtype !== "float32" && dtype !== "float16") {
    throw new Refusal(`It computes with "${name}", which is ${dtype}.`);
  }
  const width = countElements(shape.filter((size) => typeof size === "number"));
  return { tensor: name, stride: width, offset: 0, width, elem: toElem(dtype) };
}
