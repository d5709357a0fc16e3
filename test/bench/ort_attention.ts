/**
 * ONNX Runtime's GroupQueryAttention on Hearth's device, for comparison with paged attention.
 *
 * @module
 */
import * as ort from "onnxruntime-web/jspi";
import type { GpuContext } from "../../src/gpu/device.ts";
import type { Elem } from "../../src/gpu/kernel.ts";
import { writeOneNodeModel } from "./one_node_model.ts";
import { createRandom } from "./random_buffer.ts";

/** A batch of sequences of the same length, which GroupQueryAttention requires. */
export interface AttentionBatch {
  readonly elem: Elem;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly sequences: number;
  /** New tokens of each sequence. */
  readonly queries: number;
  /** Keys of each sequence, including the new ones. */
  readonly keys: number;
}

/** A session of one node whose cache is updated in place, as a decoder would keep it. */
export class OrtAttention {
  readonly out: GPUBuffer;
  readonly #session: ort.InferenceSession;
  readonly #feeds: Record<string, ort.Tensor>;
  readonly #fetches: Record<string, ort.Tensor>;
  readonly #buffers: readonly GPUBuffer[];

  private constructor(
    session: ort.InferenceSession,
    gpu: GpuContext,
    batch: AttentionBatch,
  ) {
    const { elem, heads, kvHeads, headSize, sequences, queries, keys } = batch;
    this.#session = session;
    const buffers: GPUBuffer[] = [];
    const make = (dims: number[]) => {
      const length = dims.reduce((product, dim) => product * dim, 1);
      const buffer = createRandom(gpu, length, elem);
      buffers.push(buffer);
      const dataType = elem === "f16" ? "float16" : "float32";
      // The package's types declare another GPUBuffer.
      const tensor = ort.Tensor.fromGpuBuffer(buffer as never, { dataType, dims });
      return { buffer, tensor };
    };
    const cacheDims = [sequences, kvHeads, keys, headSize];
    const out = make([sequences, queries, heads * headSize]);
    const pastKey = make(cacheDims).tensor;
    const pastValue = make(cacheDims).tensor;
    this.#feeds = {
      query: make([sequences, queries, heads * headSize]).tensor,
      key: make([sequences, queries, kvHeads * headSize]).tensor,
      value: make([sequences, queries, kvHeads * headSize]).tensor,
      past_key: pastKey,
      past_value: pastValue,
      seqlens_k: new ort.Tensor("int32", new Int32Array(sequences).fill(keys - 1), [sequences]),
      total_sequence_length: new ort.Tensor("int32", Int32Array.of(keys), []),
    };
    this.#fetches = { out: out.tensor, present_key: pastKey, present_value: pastValue };
    this.#buffers = buffers;
    this.out = out.buffer;
  }

  static async create(gpu: GpuContext, batch: AttentionBatch): Promise<OrtAttention> {
    const { elem, heads, kvHeads, headSize } = batch;
    const cache = (name: string) => ({ name, elem, dims: ["batch", kvHeads, "length", headSize] });
    const tokens = (name: string, count: number) => ({
      name,
      elem,
      dims: ["batch", "queries", count * headSize],
    });
    const model = writeOneNodeModel({
      opType: "GroupQueryAttention",
      domain: "com.microsoft",
      inputs: [
        tokens("query", heads),
        tokens("key", kvHeads),
        tokens("value", kvHeads),
        cache("past_key"),
        cache("past_value"),
        { name: "seqlens_k", elem: "i32", dims: ["batch"] },
        { name: "total_sequence_length", elem: "i32", dims: [] },
      ],
      outputs: [tokens("out", heads), cache("present_key"), cache("present_value")],
      attributes: { num_heads: { int: heads }, kv_num_heads: { int: kvHeads } },
    });
    const provider = { name: "webgpu", device: gpu.device, validationMode: "disabled" } as const;
    const session = await ort.InferenceSession.create(model, {
      executionProviders: [provider as ort.InferenceSession.ExecutionProviderConfig],
      preferredOutputLocation: "gpu-buffer",
    });
    return new OrtAttention(session, gpu, batch);
  }

  async run(): Promise<void> {
    await this.#session.run(this.#feeds, this.#fetches);
  }

  async dispose(): Promise<void> {
    await this.#session.release();
    for (const buffer of this.#buffers) buffer.destroy();
  }
}
