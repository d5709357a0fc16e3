/**
 * A graph that concatenates two tensors on the device.
 *
 * @module
 */
import type { Backend } from "../../device/backend.ts";
import { codeOfDtype } from "../../graph/file/dtype.ts";
import type { GraphSession } from "../../device/ort/ort.ts";
import { makeNode } from "../../graph/file/proto.ts";
import { makeValueInfo, writeModel } from "../../graph/file/proto_write.ts";

type Float = "float32" | "float16";

/**
 * Joins inputs `first` and `second` to `joined`, of the second's type: `[rows, positions, width]`, alike but for the
 * positions.
 */
export function openJoinGraph(
  backend: Backend,
  { first, second }: { readonly first: Float; readonly second: Float },
): Promise<GraphSession> {
  const shape = (positions: string) => ["rows", positions, "width"];
  const bytes = writeModel({
    irVersion: 8,
    operatorSets: [{ domain: "", version: 17 }],
    graph: {
      name: "join",
      nodes: [
        makeNode("Cast", ["first"], ["alike"], { attributes: { to: codeOfDtype(second) } }),
        makeNode("Concat", ["alike", "second"], ["joined"], { attributes: { axis: 1 } }),
      ],
      initializers: [],
      inputs: [
        makeValueInfo("first", first, shape("first_positions")),
        makeValueInfo("second", second, shape("second_positions")),
      ],
      outputs: [makeValueInfo("joined", second, shape("tokens"))],
      valueInfos: [],
      rest: [],
    },
    rest: [],
  });
  return backend.openSession(bytes);
}
