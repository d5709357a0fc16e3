/**
 * Speech recognition's kernels on a GPU.
 *
 * @module
 */
import type { ComputePass } from "../gpu/commands.ts";
import { LogMel } from "../../kernels/log_mel.ts";
import type { LogMelRow } from "../../kernels/log_mel_spec.ts";
import type { TokenRule } from "../../kernels/token_rule.ts";
import { TokenRules } from "../../kernels/token_rules.ts";
import { createBuffer, type GpuContext } from "../gpu/device.ts";
import { type Elem, sizeOf } from "../gpu/kernel.ts";
import { Tensor } from "../onnx/runtime/ort.ts";
import { gatherRowsOnGpu } from "./gather_rows.ts";
import type { SpeechKernels, SpeechOptions } from "./speech.ts";

const ELEM: Readonly<Record<SpeechOptions["logitsDtype"], Elem>> = {
  float32: "f32",
  float16: "f16",
};

export class WebGpuSpeech implements SpeechKernels {
  readonly #gpu: GpuContext;
  readonly #options: SpeechOptions;
  readonly #logMel: LogMel;
  readonly #rules: TokenRules;
  readonly #features: GPUBuffer;

  constructor(gpu: GpuContext, options: SpeechOptions) {
    const { spec, rules, featuresDtype, logitsDtype, maxRows, maxRecordings } = options;
    const elem = ELEM[featuresDtype];
    this.#gpu = gpu;
    this.#options = options;
    this.#logMel = new LogMel(gpu, { spec, elem, maxRows, maxRecordings });
    this.#rules = new TokenRules(gpu, { ...rules, elem: ELEM[logitsDtype], maxRows });
    this.#features = createBuffer(gpu, {
      label: "features",
      size: maxRows * spec.mels * spec.frames * sizeOf(elem),
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
    });
  }

  forget(recording: number): void {
    this.#logMel.forget(recording);
  }

  measure(rows: readonly LogMelRow[]): void {
    this.#submit((pass) => this.#logMel.encodeMeasure(pass, rows));
  }

  features(rows: readonly LogMelRow[]): Tensor {
    const { spec: { mels, frames }, featuresDtype } = this.#options;
    this.#submit((pass) => this.#logMel.encode(pass, rows, this.#features));
    return Tensor.fromGpuBuffer(this.#features, {
      dataType: featuresDtype,
      dims: [rows.length, mels, frames],
    });
  }

  restrict(logits: Tensor, rules: readonly (TokenRule | undefined)[]): void {
    this.#submit((pass) => this.#rules.encode(pass, rules, logits.gpuBuffer as GPUBuffer));
  }

  takeRows(tensor: Tensor, rows: readonly number[]): Tensor {
    return gatherRowsOnGpu(this.#gpu, [{ tensor, rows }]);
  }

  dispose(): void {
    this.#logMel.dispose();
    this.#rules.dispose();
    this.#features.destroy();
  }

  #submit(encode: (pass: ComputePass) => void): void {
    const encoder = this.#gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    encode(pass);
    pass.end();
    this.#gpu.commands.submit(encoder);
  }
}
