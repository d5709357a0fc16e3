/**
 * Opens graphs for tests on the CPU.
 *
 * @module
 */
import {
  type ExternalData,
  type GraphSession,
  loadNative,
  openSession,
  releaseNativeSessions,
} from "../../../src/device/ort/ort.ts";
import type { ModelFiles } from "../../../src/graph/file/external_data.ts";
import type { ModelProto } from "../../../src/graph/file/proto.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { writeModel } from "../../../src/graph/file/proto_codec.ts";
import { readStoredBytes } from "../../../src/graph/file/stored_range.ts";

// Native sessions that are open when the process ends may crash it.
globalThis.addEventListener("unload", () => void releaseNativeSessions());

/** Opens a graph in onnxruntime-node, or if it is missing in onnxruntime-web, which takes a second longer to load. */
export async function openCpuSession(
  model: Uint8Array,
  externalData: readonly ExternalData[] = [],
): Promise<GraphSession> {
  const hasNative = await loadNative().then(() => true, () => false);
  if (!hasNative) return await openSession(model, { externalData });
  const bytes = externalData.length === 0 ? model : await moveInside(model, externalData);
  return await openSession(bytes, { runtime: "native", threads: 1 });
}

/** onnxruntime-node only reads external data from the disk. */
async function moveInside(
  model: Uint8Array,
  externalData: readonly ExternalData[],
): Promise<Uint8Array> {
  const contents = new Map([
    ["", model],
    ...externalData.map(({ path, data }) => [path, data] as const),
  ]);
  const files: ModelFiles = {
    size: (file) => Promise.resolve(contents.get(file)!.length),
    read: (file, offset, into) =>
      Promise.resolve(into.set(contents.get(file)!.subarray(offset, offset + into.length))),
  };
  return await withWeightsInside(await readModel(files, ""), files);
}

/** Writes a model with all its weights inside the graph. */
export async function withWeightsInside(
  model: ModelProto,
  files: ModelFiles,
): Promise<Uint8Array> {
  const initializers = await Promise.all(model.graph.initializers.map(async (tensor) => ({
    ...tensor,
    data: { kind: "memory" as const, bytes: await readStoredBytes(tensor, files) },
  })));
  return writeModel({ ...model, graph: { ...model.graph, initializers } });
}
