/**
 * ONNX Runtime's sessions on a GPU. Large weights are inputs that read the model's {@linkcode DeviceWeights}, and
 * tables of token embeddings stay in their file: rows are read on the CPU and uploaded.
 *
 * @module
 */
import { createStorage, type GpuContext } from "../../gpu/device.ts";
import {
  type EmbeddingLookup,
  splitByLookup,
  takeLookup,
} from "../../graph/cut/embedding_lookup.ts";
import { EmbeddingTable } from "../../graph/cut/embedding_table.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import {
  bytesToNibbles,
  liftLargeWeights,
  liftWeights,
  sumsToAdditions,
  type WeightInputs,
} from "../../graph/rewrite/webgpu_graph.ts";
import type { OpenModelOptions } from "../backend.ts";
import { type DeviceTensor, DeviceWeights } from "../device_weights.ts";
import { type GraphSession, openSession, Tensor } from "../ort/ort.ts";
import { copyWeights } from "../ort/pack_model.ts";

/** Opens sessions whose runs follow the recorded commands. */
export class WebGpuSessions {
  readonly #gpu: GpuContext;

  constructor(gpu: GpuContext) {
    this.#gpu = gpu;
  }

  /** Opens a graph without external data from the bytes of its ModelProto. */
  async open(model: Uint8Array): Promise<GraphSession> {
    return this.#inOrder(await openSession(model, { device: this.#gpu.device }));
  }

  /** Opens a model: see {@linkcode Backend.openModel}. */
  async openModel(
    model: ModelProto,
    files: ModelFiles,
    { weights }: OpenModelOptions = {},
  ): Promise<GraphSession> {
    const suited = bytesToNibbles(sumsToAdditions(model));
    if (weights !== undefined) {
      return await this.#openLifted(liftWeights(suited), files, weights);
    }
    const lifted = liftLargeWeights(suited);
    const own = new DeviceWeights(this.#gpu, files);
    try {
      const session = await this.#openLifted(lifted, files, own);
      return { ...session, release: () => session.release().finally(() => own.dispose()) };
    } catch (error) {
      own.dispose();
      throw error;
    }
  }

  /** Opens a graph of token embeddings: see {@linkcode Backend.openEmbedding}. */
  async openEmbedding(model: ModelProto, files: ModelFiles): Promise<GraphSession> {
    const parts = splitByLookup(model);
    if (parts.length > 1) return await this.#openParts(parts, files);
    const taken = takeLookup(model);
    if (taken === undefined) return await this.openModel(model, files);
    const { lookup, rest: { graph } } = taken;
    const givesRowsToo = graph.outputs.some(({ name }) => name === lookup.output);
    if (graph.nodes.length > 0 && givesRowsToo) return await this.openModel(model, files);
    const rest = graph.nodes.length > 0 ? await this.openModel(taken.rest, files) : undefined;
    try {
      return await openEmbeddingSession(this.#gpu, { lookup, rest }, files);
    } catch (error) {
      await rest?.release();
      throw error;
    }
  }

  /** Opens several embeddings' graphs, each with its own outputs, as one session. */
  async #openParts(parts: readonly ModelProto[], files: ModelFiles): Promise<GraphSession> {
    const sessions: GraphSession[] = [];
    const release = async () => {
      await Promise.all(sessions.map((session) => session.release()));
    };
    try {
      for (const part of parts) sessions.push(await this.openEmbedding(part, files));
    } catch (error) {
      await release();
      throw error;
    }
    const inputs = new Map(sessions.flatMap((each) => each.inputs.map((one) => [one.name, one])));
    return {
      inputs: [...inputs.values()],
      outputs: sessions.flatMap(({ outputs }) => outputs),
      run: async (feeds, fetches) => {
        const results: Record<string, Tensor> = {};
        try {
          for (const session of sessions) {
            const wanted = fetches && pick(fetches, session.outputs);
            if (wanted && Object.keys(wanted).length === 0) continue;
            Object.assign(results, await session.run(pick(feeds, session.inputs), wanted));
          }
        } catch (error) {
          // Tensors that the caller passed as outputs are the caller's.
          for (const [name, tensor] of Object.entries(results)) {
            if (fetches?.[name] !== tensor) tensor.dispose();
          }
          throw error;
        }
        return results;
      },
      release,
    };
  }

  async #openLifted(
    lifted: WeightInputs,
    files: ModelFiles,
    weights: DeviceWeights,
  ): Promise<GraphSession> {
    await weights.upload(lifted.weights);
    const { bytes, externalData } = await copyWeights(lifted.model, files);
    const session = await openSession(bytes, { device: this.#gpu.device, externalData });
    const given = lifted.weights.map(({ name }) => [name, weights.get(name)!] as const);
    return this.#inOrder(withInputs(session, given));
  }

  /** Wraps a session so that its runs follow the recorded commands. */
  #inOrder(session: GraphSession): GraphSession {
    return {
      ...session,
      run: (feeds, fetches) => {
        this.#gpu.commands.submit();
        return session.run(feeds, fetches);
      },
    };
  }
}

/** Selects the values whose names are inputs or outputs of a session. */
function pick<Value>(
  values: Readonly<Record<string, Value>>,
  own: readonly { readonly name: string }[],
): Record<string, Value> {
  return Object.fromEntries(
    own.flatMap(({ name }) => name in values ? [[name, values[name]!]] : []),
  );
}

/** Wraps a session with fixed additional inputs. */
function withInputs(
  session: GraphSession,
  given: readonly (readonly [string, DeviceTensor])[],
): GraphSession {
  if (given.length === 0) return session;
  const tensors = Object.fromEntries(given.map(([name, { buffer, dtype, dims }]) => [
    name,
    Tensor.fromGpuBuffer(buffer, { dataType: dtype as "uint8", dims }),
  ]));
  return {
    ...session,
    inputs: session.inputs.filter(({ name }) => !(name in tensors)),
    run: (feeds, fetches) => session.run({ ...feeds, ...tensors }, fetches),
  };
}

/** An embeddings' graph, divided into its lookup and the nodes after the lookup. */
interface EmbeddingGraph {
  readonly lookup: EmbeddingLookup;
  /** Computes the graph's outputs from the rows; absent if the rows are the output. */
  readonly rest?: GraphSession | undefined;
}

/**
 * Opens a session that looks up embeddings. It takes token ids on the CPU.
 *
 * @param graph.rest belongs to the returned session.
 * @throws {StartupError} when a file ends before the table does.
 */
async function openEmbeddingSession(
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
