/**
 * The backend for machines without a GPU: ONNX Runtime's CPU provider and the kernels' references.
 *
 * @module
 */
import { ReferenceSampler } from "../../kernels/sample_reference.ts";
import type { SampledToken, SampleRow } from "../../kernels/sample_row.ts";
import { type ExternalData, openSession, type Session, type Tensor } from "../onnx/ort.ts";
import type { AttentionOptions, Backend, PagedAttention } from "./backend.ts";
import { CpuAttention } from "./cpu_attention.ts";

/** See the module. */
export class CpuBackend implements Backend {
  readonly kind = "cpu";
  readonly adapter = `CPU (WebAssembly, ${Deno.build.arch})`;
  readonly hasF16 = false;
  readonly maxBufferBytes = 2 ** 31;
  readonly lost = new Promise<string>(() => {});
  #sampler: ReferenceSampler | undefined;

  openSession(model: Uint8Array, externalData?: readonly ExternalData[]): Promise<Session> {
    return openSession(model, { externalData });
  }

  /** ONNX Runtime's CPU provider writes into memory of its own. */
  allocate(): undefined {}

  openAttention(options: AttentionOptions): PagedAttention {
    return new CpuAttention(options);
  }

  sample(logits: Tensor, firstRow: number, rows: readonly SampleRow[]): Promise<SampledToken[]> {
    const vocabSize = logits.dims.at(-1) as number;
    if (this.#sampler?.vocabSize !== vocabSize) this.#sampler = new ReferenceSampler(vocabSize);
    const data = logits.data as Float32Array | Float16Array;
    const wanted = data.subarray(firstRow * vocabSize, (firstRow + rows.length) * vocabSize);
    return Promise.resolve(this.#sampler.sample(wanted, vocabSize, rows));
  }

  dispose(): void {}
}
