/**
 * Reads and opens the graphs of a model folder.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { FolderFiles } from "../../graph/file/external_data.ts";
import { makeModel, makeNode, type ModelProto, withGraph } from "../../graph/file/proto.ts";
import { readModel } from "../../graph/file/proto_read.ts";
import type { GraphSession } from "../../device/ort/ort.ts";
import type { OpenContext } from "../model.ts";
import type { ChosenGraph } from "./graph_choice.ts";
import { type Setting, StartupError } from "../../base/errors.ts";
import { makeValueInfo, writeModel } from "../../graph/file/proto_codec.ts";
import type { Backend } from "../../device/backend.ts";
import { toDtypeCode } from "../../graph/file/tensor.ts";

export type GraphContext = Pick<OpenContext, "folder" | "graphs" | "backend" | "onProgress">;

/** A graph without its weights, which are read from its files when a session is opened. */
export interface GraphFile extends ChosenGraph, AsyncDisposable {
  readonly model: ModelProto;
  /** The graph's own file and its external data; they stay open until it is disposed of. */
  readonly files: FolderFiles;
}

export const EMBEDDING = "embed_tokens";

/**
 * Reads a graph.
 *
 * @param name the graph's name; the main graph if absent.
 * @throws {StartupError} when the folder has no such graph.
 */
export async function readGraph(
  { folder, graphs, onProgress }: Pick<GraphContext, "folder" | "graphs" | "onProgress">,
  name?: string,
): Promise<GraphFile> {
  const chosen = name === undefined ? graphs.main : graphs.of(name);
  const { path } = chosen;
  onProgress({ what: `loading ${path}` });
  await using opened = new AsyncDisposableStack();
  const files = opened.use(new FolderFiles(join(folder.path, dirname(path)), folder.path));
  // Opens the file, so that a change while it is loaded is noticed.
  await files.size(basename(path));
  const model = graphs.takeRead(path) ?? await readModel(files, basename(path));
  const kept = opened.move();
  return { ...chosen, model, files, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/**
 * Opens a graph unchanged.
 *
 * @throws {StartupError} when the folder has no such graph.
 */
export async function openGraph(name: string, context: GraphContext): Promise<GraphSession> {
  await using graph = await readGraph(context, name);
  return await context.backend.openModel(graph.model, graph.files);
}

/** Opens the graph of token embeddings, whose ids must be on the CPU. */
export async function openEmbeddingGraph(context: GraphContext): Promise<GraphSession> {
  await using graph = await readGraph(context, EMBEDDING);
  return await context.backend.openEmbedding(graph.model, graph.files);
}

// The inputs and outputs of graphs: those they must have, those they may have, and the output that is kept.

/**
 * @returns the session.
 * @throws {StartupError} when an input or an output is missing: it names those that exist and those that are wanted.
 */
export function requirePorts(session: GraphSession, wanted: {
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
  /** How errors name the graph: `onnx/model.onnx`. */
  readonly of: string;
  /** The setting that chose the graph, if one did. */
  readonly setting?: Setting | undefined;
}): GraphSession {
  for (const what of ["inputs", "outputs"] as const) {
    const names = session[what].map(({ name }) => name);
    const needed = wanted[what] ?? [];
    if (needed.every((name) => names.includes(name))) continue;
    throw new StartupError(
      `${wanted.of} has the ${what} ${names.join(", ")}; wanted: ${needed.join(", ")}.`,
      { setting: wanted.setting },
    );
  }
  return session;
}

/** @throws {StartupError} naming the inputs that are not among the known ones. */
export function requireKnownInputs(
  { inputs }: Pick<GraphSession, "inputs">,
  { isKnown, of }: { readonly isKnown: (name: string) => boolean; readonly of: string },
): void {
  const unknown = inputs.map(({ name }) => name).filter((name) => !isKnown(name));
  if (unknown.length === 0) return;
  throw new StartupError(`${of} has unknown inputs: ${unknown.join(", ")}.`);
}

/** Keeps one output of the graph, as float32 and under the name `as`. */
export function keepOutput(model: ModelProto, name: string, as: string): ModelProto {
  const { graph } = model;
  const shape = graph.outputs.find((output) => output.name === name)?.shape ?? [];
  return withGraph(model, {
    nodes: [...graph.nodes, makeNode("Cast", [name], [as], { attributes: { to: 1 } })],
    outputs: [
      makeValueInfo(as, "float32", shape.map((size, axis) => size ?? `size_${axis}`)),
    ],
  });
}

/**
 * The first of `names` that is an output of the graph.
 *
 * @throws {StartupError} naming the graph's outputs, if none is.
 */
export function findOutput({ graph }: ModelProto, names: readonly string[]): string {
  const there = graph.outputs.map(({ name }) => name);
  const found = names.find((name) => there.includes(name));
  if (found !== undefined) return found;
  throw new StartupError(
    `The graph has no output ${names.join(" or ")}; it has ${there.join(", ")}.`,
  );
}

type Float = "float32" | "float16";

/**
 * Opens a graph that concatenates `first` and `second` into `joined` along the positions. All are `[rows, positions,
 * width]` of the second's type.
 */
export function openJoinGraph(
  backend: Backend,
  { first, second }: { readonly first: Float; readonly second: Float },
): Promise<GraphSession> {
  const shape = (positions: string) => ["rows", positions, "width"];
  const bytes = writeModel(makeModel({
    name: "join",
    nodes: [
      makeNode("Cast", ["first"], ["alike"], { attributes: { to: toDtypeCode(second) } }),
      makeNode("Concat", ["alike", "second"], ["joined"], { attributes: { axis: 1 } }),
    ],
    inputs: [
      makeValueInfo("first", first, shape("first_positions")),
      makeValueInfo("second", second, shape("second_positions")),
    ],
    outputs: [makeValueInfo("joined", second, shape("tokens"))],
  }));
  return backend.openSession(bytes);
}
