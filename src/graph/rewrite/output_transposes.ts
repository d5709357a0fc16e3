/**
 * Transposes a graph's outputs, or takes over the transposes of the graph that reads them.
 *
 * @module
 */
import {
  intsAttribute,
  makeNode,
  type ModelProto,
  type Node,
  type ValueInfo,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_write.ts";

/**
 * Moves transposes from a graph that runs often to the graph that makes its inputs and runs once. Lets `maker` transpose
 * those of its outputs that `user` only reads transposed, always in the same way.
 *
 * @param toOutput the output of `maker` that is the given input of `user`; `undefined` for other inputs.
 */
export function hoistTransposes(
  { maker, user }: { readonly maker: ModelProto; readonly user: ModelProto },
  toOutput: (input: string) => string | undefined,
): { maker: ModelProto; user: ModelProto } {
  const hoisted = new Map<string, Node>();
  for (const { name } of user.graph.inputs) {
    const readers = user.graph.nodes.filter(({ inputs }) => inputs.includes(name));
    const [only] = readers;
    if (readers.length !== 1 || only!.opType !== "Transpose" || !toOutput(name)) continue;
    if (intsAttribute(only!, "perm") !== undefined) hoisted.set(name, only!);
  }
  const inputByOutput = new Map([...hoisted].map(([input, { outputs }]) => [outputs[0]!, input]));
  const transposes = new Map([...hoisted].map(([input, node]) => [toOutput(input)!, node]));
  return {
    user: withGraph(user, {
      nodes: user.graph.nodes
        .filter((node) => hoisted.get(node.inputs[0] ?? "") !== node)
        .map((node) => ({
          ...node,
          inputs: node.inputs.map((name) => inputByOutput.get(name) ?? name),
        })),
      inputs: user.graph.inputs.map((input) => permute(input, hoisted.get(input.name))),
    }),
    maker: withGraph(maker, {
      nodes: [
        ...maker.graph.nodes.map((node) => ({
          ...node,
          outputs: node.outputs.map((name) => transposes.has(name) ? plainName(name) : name),
        })),
        ...[...transposes].map(([name, node]): Node => ({
          ...makeNode("Transpose", [plainName(name)], [name], { name: `${name}_hoisted` }),
          attributes: node.attributes,
        })),
      ],
      outputs: maker.graph.outputs.map((output) => permute(output, transposes.get(output.name))),
    }),
  };
}

function plainName(name: string): string {
  return `${name}_plain`;
}

function permute(value: ValueInfo, transpose: Node | undefined): ValueInfo {
  const { name, dtype, shape } = value;
  if (transpose === undefined || dtype === undefined || shape === undefined) return value;
  const sizes = intsAttribute(transpose, "perm")!.map((axis) => shape[axis] ?? `size_${axis}`);
  return makeValueInfo(name, dtype, sizes);
}

/** Makes the outputs of keys and values token-major: transposes outputs `[batch, heads, tokens, size]` to `[batch, tokens, heads, size]`. */
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
