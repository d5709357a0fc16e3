/**
 * Reads an encoder's graph, lets it be changed, and opens it.
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../backend/backend.ts";
import type { Dtype } from "../config.ts";
import { StartupError } from "../errors.ts";
import { FolderFiles } from "../onnx/external_data.ts";
import type { Session } from "../onnx/ort.ts";
import { makeNode, type Model } from "../onnx/proto.ts";
import { readModel } from "../onnx/proto_read.ts";
import { makeValueInfo } from "../onnx/proto_write.ts";
import type { LoadProgress } from "../worker/protocol.ts";
import { openChangedGraph } from "./changed_graph.ts";
import { chooseDtype, graphFile, type ModelFolder } from "./folder.ts";

const GRAPH = "model";

/** How to load a model around an encoder. */
export interface EncoderLoadOptions {
  readonly backend: Backend;
  readonly dtype?: Dtype | undefined;
  /** Most tokens of a batch; chosen by measuring if absent. */
  readonly maxBatchTokens: number | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
}

/**
 * Opens a folder's graph in the dtype asked for, or the one that suits the backend best.
 *
 * @param change makes of the graph what is to be opened.
 * @throws {StartupError} when there is no such graph.
 */
export async function openEncoderGraph(
  folder: ModelFolder,
  options: EncoderLoadOptions,
  change: (model: Model) => Model,
): Promise<{ session: Session; dtype: Dtype }> {
  const { backend, onProgress } = options;
  const device = backend.kind === "cpu" ? "cpuInBatches" : backend.hasF16 ? "gpuWithF16" : "gpu";
  const dtype = chooseDtype(folder, { graph: GRAPH, device, dtype: options.dtype });
  const path = graphFile(GRAPH, dtype);
  onProgress({ what: `loading ${path}` });
  await using files = new FolderFiles(join(folder.path, "onnx"));
  const model = change(await readModel(files, path.slice(path.lastIndexOf("/") + 1)));
  const session = await openChangedGraph(model, { files, backend });
  return { session, dtype };
}

/** Leaves the graph one output, under the name `as` and in float32. */
export function keepOutput(model: Model, name: string, as: string): Model {
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
export function findOutput({ graph }: Model, names: readonly string[]): string {
  const there = graph.outputs.map(({ name }) => name);
  const found = names.find((name) => there.includes(name));
  if (found !== undefined) return found;
  throw new StartupError(
    `The graph has no output ${names.join(" or ")}; it has ${there.join(", ")}.`,
  );
}
