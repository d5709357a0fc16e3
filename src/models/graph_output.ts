/**
 * The outputs of a graph.
 *
 * @module
 */
import { StartupError } from "../errors.ts";
import { makeNode, type ModelProto } from "../onnx/file/proto.ts";
import { makeValueInfo } from "../onnx/file/proto_write.ts";

/** Leaves the graph one output, under the name `as` and in float32. */
export function keepOutput(model: ModelProto, name: string, as: string): ModelProto {
  const { graph } = model;
  const shape = graph.outputs.find((output) => output.name === name)?.shape ?? [];
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [...graph.nodes, makeNode("Cast", [name], [as], { attributes: { to: 1 } })],
      outputs: [
        makeValueInfo(as, "float32", shape.map((size, axis) => size ?? `size_${axis}`)),
      ],
    },
  };
}

/**
 * The first of `names` that the graph has as an output.
 *
 * @throws {StartupError} naming the outputs it has.
 */
export function findOutput({ graph }: ModelProto, names: readonly string[]): string {
  const there = graph.outputs.map(({ name }) => name);
  const found = names.find((name) => there.includes(name));
  if (found !== undefined) return found;
  throw new StartupError(
    `The graph has no output ${names.join(" or ")}; it has ${there.join(", ")}.`,
  );
}
