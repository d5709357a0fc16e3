/**
 * Opens graphs that were changed after they were read.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import { type FolderFiles, readStored, storedBytes } from "../onnx/external_data.ts";
import type { Session } from "../onnx/ort.ts";
import type { Model } from "../onnx/proto.ts";
import { writeModel } from "../onnx/proto_write.ts";
import { placeConstants } from "../onnx/segment_model.ts";

const WEIGHTS_FILE = "weights.data";

/** Opens a graph, with its weights read from where they lie among `files`. */
export async function openChangedGraph(
  model: Model,
  { files, backend }: { files: FolderFiles; backend: Backend },
): Promise<Session> {
  const { initializers, blobParts, blobBytes } = placeConstants(
    model.graph.initializers,
    WEIGHTS_FILE,
  );
  const data = new Uint8Array(blobBytes);
  for (const { tensor, blobOffset } of blobParts) {
    const end = blobOffset + storedBytes(tensor);
    await readStored(tensor, files, data.subarray(blobOffset, end));
  }
  return await backend.openSession(
    writeModel({ ...model, graph: { ...model.graph, initializers } }),
    blobBytes === 0 ? [] : [{ path: WEIGHTS_FILE, data }],
  );
}
