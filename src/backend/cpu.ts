/**
 * The backend for machines without a GPU: ONNX Runtime's CPU provider, attention in WebAssembly
 * SIMD, and the references of the other kernels.
 *
 * @module
 */
import { ReferenceSampler } from "../../kernels/sample_reference.ts";
import { loadTransformers, type Transformers } from "../onnx/hook.ts";
import { type ExternalData, openSession, type Session, type Tensor } from "../onnx/ort.ts";
import type {
  AttentionOptions,
  Backend,
  PagedAttention,
  RowRange,
  Sampler,
  SamplerOptions,
  TensorRows,
} from "./backend.ts";
import { CpuAttention } from "./cpu_attention.ts";
import { CpuCrossAttention } from "./cpu_cross_attention.ts";
import type { CrossAttention, CrossAttentionOptions } from "./cross_attention.ts";
import { CpuPackedAttention } from "./cpu_packed_attention.ts";
import { CpuSpeech } from "./cpu_speech.ts";
import { gatherRowsOnCpu } from "./gather_rows.ts";
import { CpuImages } from "./cpu_images.ts";
import type { ImageKernels } from "./images.ts";
import type { PackedAttention, PackedAttentionOptions } from "./packed_attention.ts";
import type { SpeechKernels, SpeechOptions } from "./speech.ts";

/** See the module. */
export class CpuBackend implements Backend {
  readonly kind = "cpu";
  readonly adapter = `CPU (WebAssembly, ${Deno.build.arch})`;
  readonly hasF16 = false;
  readonly maxBufferBytes = 2 ** 31;
  readonly lost = new Promise<string>(() => {});

  openSession(model: Uint8Array, externalData?: readonly ExternalData[]): Promise<Session> {
    return openSession(model, { externalData });
  }

  /** ONNX Runtime's CPU provider writes into memory of its own. */
  allocate(): undefined {}

  gatherRows(parts: readonly TensorRows[]): Tensor {
    return gatherRowsOnCpu(parts);
  }

  /** ONNX Runtime has copied the elements out of its own memory already. */
  read(tensor: Tensor): Promise<Float32Array> {
    return Promise.resolve(tensor.data as Float32Array);
  }

  copyRows(from: Tensor, to: Tensor, { fromRow, toRow, numRows }: RowRange): void {
    const width = to.dims.at(-1)!;
    const rows = (from.data as Float32Array).subarray(fromRow * width, (fromRow + numRows) * width);
    (to.data as Float32Array).set(rows, toRow * width);
  }

  openAttention(options: AttentionOptions): PagedAttention {
    return new CpuAttention(options);
  }

  openPackedAttention(options: PackedAttentionOptions): PackedAttention {
    return new CpuPackedAttention(options);
  }

  openCrossAttention(options: CrossAttentionOptions): CrossAttention {
    return new CpuCrossAttention(options);
  }

  openSampler({ vocabSize }: SamplerOptions): Sampler {
    const sampler = new ReferenceSampler(vocabSize);
    return {
      sample: (logits, rows) =>
        Promise.try(() =>
          sampler.sample(logits.data as Float32Array | Float16Array, vocabSize, rows)
        ),
      dispose: () => {},
    };
  }

  openSpeech(options: SpeechOptions): SpeechKernels {
    return new CpuSpeech(options);
  }

  openImages(): Promise<ImageKernels> {
    return Promise.resolve(new CpuImages());
  }

  loadTransformers(modelsFolder: string): Promise<Transformers> {
    return loadTransformers({ modelsFolder });
  }

  dispose(): void {}
}
