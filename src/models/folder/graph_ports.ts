/**
 * The inputs and outputs of graphs: those that they must have, those that they may have, and the one that is kept.
 *
 * @module
 */
import { type Setting, StartupError } from "../../base/errors.ts";
import { makeNode, type ModelProto } from "../../graph/file/proto.ts";
import { makeValueInfo } from "../../graph/file/proto_write.ts";
import type { GraphSession } from "../../device/ort/ort.ts";

/** @returns the session. @throws {StartupError} naming what it has and what is wanted, when it lacks an input or an output. */
export function requirePorts(session: GraphSession, wanted: {
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
  /** What the graph is called where it lacks one: `onnx/model.onnx`. */
  readonly of: string;
  /** The setting that chose the graph, if one did. */
  readonly setting?: Setting | undefined;
}): GraphSession {
  for (const what of ["inputs", "outputs"] as const) {
    const names = session[what].map(({ name }) => name);
    const needed = wanted[what] ?? [];
    if (needed.every((name) => names.includes(name))) continue;
    throw new StartupError(
      `${wanted.of} has the ${what} ${names.join(", ")}; wanted are ${needed.join(", ")}.`,
      { setting: wanted.setting },
    );
  }
  return session;
}

/** @throws {StartupError} naming the inputs that nobody knows how to fill. */
export function requireKnownInputs(
  { inputs }: Pick<GraphSession, "inputs">,
  { isKnown, of }: { readonly isKnown: (name: string) => boolean; readonly of: string },
): void {
  const unknown = inputs.map(({ name }) => name).filter((name) => !isKnown(name));
  if (unknown.length === 0) return;
  throw new StartupError(`${of} wants inputs that are not known: ${unknown.join(", ")}.`);
}

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
