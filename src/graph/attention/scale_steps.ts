/**
 * Steps that scale a tensor and leave its shape: products and quotients by a number, casts, and sums with zeros. Pure.
 *
 * @module
 */
import { countElements } from "../file/dtype.ts";
import type { Evaluation } from "../evaluate/evaluation.ts";
import type { Node } from "../file/proto.ts";
import type { GraphIndex } from "../graph_index.ts";

/** A graph, and its partial evaluation. */
export interface Tracing {
  readonly index: GraphIndex;
  readonly run: Evaluation;
}

/** Follows a tensor back through the steps that only scale it, to the tensor they started from. */
export function behindScales(tensor: string, search: Tracing): { tensor: string; factor: number } {
  const node = search.index.producers.get(tensor);
  const step = node && scaleStep(node, search);
  if (step === undefined) return { tensor, factor: 1 };
  const behind = behindScales(step.source, search);
  return { ...behind, factor: behind.factor * step.factor };
}

/** The input that a node scales, and the factor; 1 for casts. */
export function scaleStep(
  { opType, inputs }: Node,
  { run }: Tracing,
): { source: string; factor: number } | undefined {
  // Exporters write a Concat of one where a cache was empty.
  const isCopy = opType === "Identity" || (opType === "Concat" && inputs.length === 1);
  if (isCopy || opType === "Cast") {
    return isFloat(inputs[0]!, run) ? { source: inputs[0]!, factor: 1 } : undefined;
  }
  if (opType === "Add") {
    // A mask that hides nothing.
    const isNothing = (name: string) => run.value(name)?.data?.every((x) => x === 0) === true;
    const [left, right] = inputs as [string, string];
    const getRank = (name: string) => run.value(name)?.shape.length ?? 0;
    if (isNothing(right) && getRank(left) >= getRank(right)) return { source: left, factor: 1 };
    return isNothing(left) && getRank(right) >= getRank(left)
      ? { source: right, factor: 1 }
      : undefined;
  }
  if (opType !== "Mul" && opType !== "Div") return undefined;
  const getNumber = (name: string) => {
    const value = run.value(name);
    return value && countElements(value.shape) === 1 ? value.data?.[0] : undefined;
  };
  const [left, right] = inputs as [string, string];
  const factor = getNumber(right);
  if (factor !== undefined) {
    return { source: left, factor: opType === "Mul" ? factor : 1 / factor };
  }
  const first = getNumber(left);
  return opType === "Mul" && first !== undefined ? { source: right, factor: first } : undefined;
}

/** Whether a tensor is of floats. */
export function isFloat(tensor: string, run: Evaluation): boolean {
  const dtype = run.value(tensor)?.dtype;
  return dtype === "float32" || dtype === "float16";
}
