/**
 * Kernels for speech recognition on a GPU.
 *
 * @module
 */
import { LogMel } from "../../../kernels/log_mel/log_mel.ts";
import type { LogMelRow } from "../../../kernels/log_mel/log_mel_spec.ts";
import type { TokenRule } from "../../../kernels/sample/token_rule.ts";
import { TokenRules } from "../../../kernels/sample/token_rules.ts";
import { createStorage, type GpuContext } from "../../gpu/device.ts";
import { type Elem, elemBytes } from "../../gpu/kernel.ts";
import { Tensor } from "../ort/ort.ts";
import type { SpeechKernels, SpeechOptions } from "../speech.ts";

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
    this.#features = createStorage(
      gpu,
      "features",
      maxRows * spec.mels * spec.frames * elemBytes(elem),
    );
  }

  forget(recording: number): void {
    this.#logMel.forget(recording);
  }

  measure(rows: readonly LogMelRow[]): void {
    this.#logMel.encodeMeasure(this.#gpu.commands, rows);
    this.#gpu.commands.submit();
  }

  features(rows: readonly LogMelRow[]): Tensor {
    const { spec: { mels, frames }, featuresDtype } = this.#options;
    this.#logMel.encode(this.#gpu.commands, rows, this.#features);
    this.#gpu.commands.submit();
    return Tensor.fromGpuBuffer(this.#features, {
      dataType: featuresDtype,
      dims: [rows.length, mels, frames],
    });
  }

  restrict(logits: Tensor, rules: readonly (TokenRule | undefined)[]): void {
    this.#rules.encode(this.#gpu.commands, rules, logits.gpuBuffer as GPUBuffer);
    this.#gpu.commands.submit();
  }

  dispose(): void {
    this.#logMel.dispose();
    this.#rules.dispose();
    this.#features.destroy();
  }
}
