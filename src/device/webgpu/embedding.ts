/**
 * Token embeddings whose table stays in its file: rows are read on the CPU and uploaded.
 *
 * @module
 */
import { createStorage, type GpuContext } from "../../gpu/device.ts";
import type { EmbeddingLookup } from "../../graph/cut/embedding_lookup.ts";
import { EmbeddingTable } from "../../graph/cut/embedding_table.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import { type GraphSession, Tensor } from "../ort/ort.ts";

/** The nodes after the lookup in an embeddings' graph. */
interface EmbeddingGraph {
  readonly lookup: EmbeddingLookup;
  /** Computes the graph's outputs from the rows; absent if the rows are the output. */
  readonly rest?: GraphSession | undefined;
}

/**
 * Opens a session that looks up embeddings. It takes token ids on the CPU.
 *
 * @param graph.rest owned from here on.
 * @throws {StartupError} when a file ends before the table does.
 */
export async function openEmbeddingSession(
  gpu: GpuContext,
  { lookup, rest }: EmbeddingGraph,
  files: ModelFiles,
): Promise<GraphSession> {
  const table = await EmbeddingTable.open(lookup, files);
  const { ids: idsName, output, dtype, width } = lookup;
  let staging = new Uint8Array(0);
  /** Rows that the rest of the graph reads. */
  let own: GPUBuffer | undefined;

  function upload(ids: Tensor, chooseBuffer: (numBytes: number) => GPUBuffer): GPUBuffer {
    const values = ids.data as BigInt64Array;
    const numBytes = Math.ceil(values.length * table.rowBytes / 16) * 16;
    if (staging.length < numBytes) staging = new Uint8Array(numBytes);
    table.read(values, staging);
    const buffer = chooseBuffer(numBytes);
    // Recorded commands still read the old content.
    gpu.commands.submit();
    gpu.device.queue.writeBuffer(buffer, 0, staging, 0, Math.min(numBytes, buffer.size));
    return buffer;
  }

  function lookUp(ids: Tensor, target: Tensor | null | undefined): Tensor {
    if (target) {
      upload(ids, () => target.gpuBuffer as GPUBuffer);
      return target;
    }
    const buffer = upload(ids, (numBytes) => allocate(gpu, numBytes));
    return asTensor(ids, buffer, () => buffer.destroy());
  }

  function asTensor(ids: Tensor, buffer: GPUBuffer, dispose?: () => void): Tensor {
    const dims = [...ids.dims, width];
    return Tensor.fromGpuBuffer(buffer, { dataType: dtype, dims, ...dispose && { dispose } });
  }

  return {
    inputs: [
      { name: idsName, type: "int64", shape: ["batch", "tokens"] },
      ...(rest?.inputs ?? []).filter(({ name }) => name !== output),
    ],
    outputs: rest?.outputs ?? [{ name: output, type: dtype, shape: ["batch", "tokens", width] }],
    run: async (feeds, fetches) => {
      const { [idsName]: ids, ...others } = feeds;
      if (rest === undefined) return { [output]: lookUp(ids!, fetches?.[output]) };
      const buffer = upload(ids!, (numBytes) => {
        if (own !== undefined && own.size >= numBytes) return own;
        own?.destroy();
        return own = allocate(gpu, numBytes);
      });
      return await rest.run({ ...others, [output]: asTensor(ids!, buffer) }, fetches);
    },
    release: async () => {
      table.close();
      own?.destroy();
      await rest?.release();
    },
  };
}

function allocate(gpu: GpuContext, numBytes: number): GPUBuffer {
  return createStorage(gpu, "embeddings", numBytes);
}
