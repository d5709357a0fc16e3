/**
 * Makes the outputs of keys and values token-major.
 *
 * @module
 */
import { makeNode, type ModelProto, withGraph } from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_write.ts";

/** Transposes outputs `[batch, heads, tokens, size]` to `[batch, tokens, heads, size]`. */
export function swapHeadsAndTokens(model: ModelProto): ModelProto {
  const { nodes, outputs } = model.graph;
  const parted = new Map(outputs.map(({ name }) => [name, `${name}/heads`]));
  const rename = (names: readonly string[]) => names.map((name) => parted.get(name) ?? name);
  return withGraph(model, {
    nodes: [
      ...nodes.map((node) => ({
        ...node,
        inputs: rename(node.inputs),
        outputs: rename(node.outputs),
      })),
      ...[...parted].map(([name, heads]) =>
        makeNode("Transpose", [heads], [name], {
          attributes: { perm: [0, 2, 1, 3] },
          name: `${name}/swap`,
        })
      ),
    ],
    outputs: outputs.map(({ name, dtype, shape = [] }) => {
      const [batch, heads, tokens, size] = shape.map((each, axis) => each ?? `${name}/${axis}`);
      return makeValueInfo(name, dtype!, [batch!, tokens!, heads!, size!]);
    }),
  });
}
