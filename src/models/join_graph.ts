/**
 * A graph that concatenates two tensors on the device.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import { codeOfDtype } from "../onnx/file/dtype.ts";
import type { GraphSession } from "../onnx/runtime/ort.ts";
import { makeNode } from "../onnx/file/proto.ts";
import { makeValueInfo, writeModel } from "../onnx/file/proto_write.ts";

type Float = "float32" | "float16";

export function openJoinGraph(backend: Backend, options: {
  /** `[rows, positions, width]`. */
  readonly first: readonly [name: string, dtype: Float];
  /** `[rows, more positions, width]`. */
  readonly second: readonly [name: string, dtype: Float];
  /** `[rows, all positions, width]`, of the second's type. */
  readonly output: string;
}): Promise<GraphSession> {
  const { first: [first, firstDtype], second: [second, secondDtype], output } = options;
  const shape = (positions: string) => ["rows", positions, "width"];
  const bytes = writeModel({
    irVersion: 8,
    operatorSets: [{ domain: "", version: 17 }],
    graph: {
      name: "join",
      nodes: [
        makeNode("Cast", [first], ["alike"], { attributes: { to: codeOfDtype(secondDtype) } }),
        makeNode("Concat", ["alike", second], [output], { attributes: { axis: 1 } }),
      ],
      initializers: [],
      inputs: [
        makeValueInfo(first, firstDtype, shape("first_positions")),
        makeValueInfo(second, secondDtype, shape("second_positions")),
      ],
      outputs: [makeValueInfo(output, secondDtype, shape("tokens"))],
      valueInfos: [],
      rest: [],
    },
    rest: [],
  });
  return backend.openSession(bytes);
}
