/**
 * Token embeddings whose table of packed weights stays in its file: rows are unpacked as they are read.
 *
 * @module
 */
import type { EmbeddingLookup } from "../../graph/cut/embedding_lookup.ts";
import { EmbeddingTable } from "../../graph/cut/embedding_table.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import type { GraphSession } from "../ort/ort.ts";
import { makeTensor } from "./tensors.ts";

/**
 * A session that looks up embeddings, in the lookup's own type.
 *
 * @throws {StartupError} when a file ends before the table does.
 */
export async function openEmbeddingSession(
  lookup: EmbeddingLookup,
  files: ModelFiles,
): Promise<GraphSession> {
  const table = await EmbeddingTable.open(lookup, files);
  const { ids: idsName, output, dtype, width } = lookup;
  return {
    inputs: [{ name: idsName, type: "int64", shape: ["batch", "tokens"] }],
    outputs: [{ name: output, type: dtype, shape: ["batch", "tokens", width] }],
    run: ({ [idsName]: ids }, fetches) => {
      const rows = fetches?.[output] ?? makeTensor(dtype, [...ids!.dims, width]);
      const { buffer, byteOffset } = rows.data as Float32Array<ArrayBuffer>;
      const numBytes = ids!.size * table.rowBytes;
      table.read(ids!.data as BigInt64Array, new Uint8Array(buffer, byteOffset, numBytes));
      return Promise.resolve({ [output]: rows });
    },
    release: () => {
      table.close();
      return Promise.resolve();
    },
  };
}
