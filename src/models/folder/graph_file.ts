/**
 * Reads and opens the graphs of a model folder, checks their inputs and outputs, and makes their inputs from tensors in
 * ordinary memory.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { FolderFiles } from "../../graph/file/external_data.ts";
import { makeModel, makeNode, type ModelProto, withGraph } from "../../graph/file/proto.ts";
import { readModel } from "../../graph/file/proto_read.ts";
import type { Dtype } from "../../base/config.ts";
import { listDtypes } from "../../hub/model_folder.ts";
import { type GraphSession, Tensor, type Tensors, type ValueInfo } from "../../device/ort/ort.ts";
import type { OpenContext } from "../model.ts";
import { type ChosenGraph, suitsDevice } from "./graph_choice.ts";
import { type Setting, StartupError } from "../../base/errors.ts";
import { makeValueInfo, writeModel } from "../../graph/file/proto_codec.ts";
import { type Backend, toDeviceClass } from "../../device/backend.ts";
import { openCpuRuntime } from "../../device/cpu/runtime.ts";
import { toDtypeCode } from "../../graph/file/tensor.ts";

export type GraphContext = Pick<OpenContext, "folder" | "graphs" | "backend" | "onProgress">;

type ReadContext = Omit<GraphContext, "backend"> & {
  readonly backend: Pick<Backend, "kind" | "hasF16" | "adapter">;
};

/** A graph without its weights. They are read from its files when a session is opened. */
export interface GraphFile extends ChosenGraph, AsyncDisposable {
  readonly model: ModelProto;
  /** The graph's file and its external data, open until the `GraphFile` is disposed of. */
  readonly files: FolderFiles;
}

export const EMBEDDING = "embed_tokens";

/**
 * Reads a graph.
 *
 * @param name the graph's name; the main graph if absent.
 * @throws {StartupError} when the folder has no such graph, or the device cannot compute in its data type.
 */
export async function readGraph(
  { folder, graphs, backend, onProgress }: ReadContext,
  name?: string,
): Promise<GraphFile> {
  const chosen = name === undefined ? graphs.main : graphs.get(name);
  const { path } = chosen;
  if (!suitsDevice(chosen.dtype, toDeviceClass(backend))) {
    throw refuseF16(path, backend.adapter, listDtypes(folder, chosen.name));
  }
  onProgress({ what: `loading ${path}` });
  await using opened = new AsyncDisposableStack();
  const files = opened.use(new FolderFiles(join(folder.path, dirname(path)), folder.path));
  // Opens the file, so that a change while it is loaded is noticed.
  const version = await files.version(basename(path));
  const model = graphs.takeRead(path, version) ?? await readModel(files, basename(path));
  const kept = opened.move();
  return { ...chosen, model, files, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

function refuseF16(path: string, adapter: string, dtypes: readonly Dtype[]): StartupError {
  const others = dtypes.filter((dtype) => !dtype.endsWith("16"));
  const [advice, setting] = others.length > 0
    ? [`Choose ${others.join(" or ")}.`, "dtype"] as const
    : ["Run it on the CPU, or choose a model that has other weights.", "device"] as const;
  return new StartupError(
    `${path} computes in half precision, which ${adapter} does not support (no shader-f16). ${advice}`,
    { setting },
  );
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

/**
 * Opens a graph in onnxruntime-web on the CPU, whichever device the model runs on.
 *
 * @param path path of the graph in the folder.
 */
export async function openWebGraph(folder: string, path: string): Promise<GraphSession> {
  await using files = new FolderFiles(join(folder, dirname(path)), folder);
  const model = await readModel(files, basename(path));
  const runtime = await openCpuRuntime({ choice: "web", threads: 1 });
  return await runtime.openModel(model, files);
}

/** Opens the graph of token embeddings. The ids passed to it must be on the CPU. */
export async function openEmbeddingGraph(context: GraphContext): Promise<GraphSession> {
  await using graph = await readGraph(context, EMBEDDING);
  return await context.backend.openEmbedding(graph.model, graph.files);
}

/**
 * Checks that a graph has certain inputs and outputs.
 *
 * @returns the session.
 * @throws {StartupError} when one is missing; the message lists the existing ones and the wanted ones.
 */
export function requirePorts(session: GraphSession, wanted: {
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
  /** Name of the graph in errors: `onnx/model.onnx`. */
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

/** @throws {StartupError} naming the inputs of the graph that are not known. */
export function requireKnownInputs(
  { inputs }: Pick<GraphSession, "inputs">,
  { isKnown, of }: { readonly isKnown: (name: string) => boolean; readonly of: string },
): void {
  const unknown = inputs.map(({ name }) => name).filter((name) => !isKnown(name));
  if (unknown.length === 0) return;
  throw new StartupError(`${of} has unknown inputs: ${unknown.join(", ")}.`);
}

/** Changes a graph so that `name`, cast to float32 and renamed to `as`, is its only output. */
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
 * Finds the first of `names` that is an output of the graph.
 *
 * @throws {StartupError} listing the graph's outputs, when none of the names is among them.
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
 * Opens a graph that casts `first` to the type of `second` and concatenates both along the positions. Inputs and the
 * output `joined` are `[rows, positions, width]`.
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

/** A tensor in ordinary memory. */
interface PlainTensor {
  /** Element type, by ONNX Runtime's name. */
  readonly type: string;
  readonly data: Float32Array | Float16Array | BigInt64Array | Int32Array | Uint8Array;
  readonly dims: readonly number[];
}

/** Tensors by the names that transformers.js gives them. */
export type PlainTensors = Readonly<Record<string, PlainTensor>>;

/** Extracts the tensors from the result of a transformers.js processor. */
export function toPlainTensors(outputs: Readonly<Record<string, unknown>>): PlainTensors {
  return Object.fromEntries(
    Object.entries(outputs).flatMap(([name, value]) => {
      const { type, data, dims } = (value ?? {}) as Partial<PlainTensor>;
      const isTensor = typeof type === "string" && ArrayBuffer.isView(data) && dims !== undefined;
      return isTensor ? [[name, { type, data, dims: [...dims] }]] : [];
    }),
  );
}

/**
 * Makes a graph's inputs, each of the type that the graph declares.
 *
 * @param options.of name of the graph in errors, at the beginning of a sentence.
 * @throws {Error} naming an input for which there is no tensor.
 */
export function toFeeds(
  { inputs }: Pick<GraphSession, "inputs">,
  { getTensor, of }: {
    readonly getTensor: (input: string) => PlainTensor | undefined;
    readonly of: string;
  },
): Tensors {
  return Object.fromEntries(inputs.map((input) => {
    const tensor = getTensor(input.name);
    if (tensor !== undefined) return [input.name, toTensor(tensor, input)];
    throw new Error(`${of} has an unknown input "${input.name}".`);
  }));
}

function toTensor({ type, data, dims }: PlainTensor, input: ValueInfo): Tensor {
  if (type === input.type) return new Tensor(input.type, data as Float32Array, dims);
  return makeInputTensor(input, Array.from<number | bigint, number>(data, Number), dims);
}

/**
 * Converts numbers to an input's type.
 *
 * @throws {Error} when the input does not take numbers.
 */
export function makeInputTensor(
  { name, type }: Pick<ValueInfo, "name" | "type">,
  values: ArrayLike<number>,
  dims: readonly number[],
): Tensor {
  switch (type) {
    case "float16":
      return new Tensor("float16", new Uint16Array(Float16Array.from(values).buffer), dims);
    case "float32": {
      const floats = values instanceof Float32Array ? values : Float32Array.from(values);
      return new Tensor("float32", floats, dims);
    }
    case "int64":
      return new Tensor("int64", toBigInts(values), dims);
    case "int32":
      return new Tensor("int32", Int32Array.from(values), dims);
    case "bool":
      return new Tensor("bool", Uint8Array.from(values), dims);
    default:
      throw new Error(`The input "${name}" has type ${type}, which is not supported.`);
  }
}

/** Converts numbers several times as fast as `BigInt64Array.from()` does. */
function toBigInts(values: ArrayLike<number>): BigInt64Array {
  const integers = new BigInt64Array(values.length);
  for (let i = 0; i < values.length; i++) integers[i] = BigInt(values[i]!);
  return integers;
}
