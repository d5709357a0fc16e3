/**
 * Moves transposes from a graph that runs often to the graph that makes its inputs and runs once.
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
 * Lets `maker` transpose those of its outputs that `user` only reads transposed, always in the same way.
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
