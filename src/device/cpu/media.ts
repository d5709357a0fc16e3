/**
 * Operations on images and recordings on the CPU: the reference implementations.
 *
 * @module
 */
import { resizeNormalize } from "../../../kernels/images/image_reference.ts";
import type { Pixels } from "../../media/pixels.ts";
import { Tensor } from "../ort/ort.ts";
import {
  computeTensorDims,
  countElementsPerRow,
  type ImageKernels,
  type MaskedImage,
  type MaskRow,
  type OpenImage,
  type SpeechKernels,
  type SpeechOptions,
  type TensorRow,
} from "../media.ts";
import { ReferenceLogMel } from "../../../kernels/log_mel/log_mel_reference.ts";
import type { LogMelRow } from "../../../kernels/log_mel/log_mel_spec.ts";
import type { TokenRule } from "../../../kernels/sample/sample_row.ts";
import { applyTokenRules } from "../../../kernels/sample/token_rules.ts";

export class CpuImages implements ImageKernels {
  #elements = new Float32Array();

  open(pixels: Pixels): OpenImage {
    return { pixels, close: () => {} };
  }

  toTensor(rows: readonly TensorRow[]): Tensor {
    const perRow = countElementsPerRow(rows);
    if (this.#elements.length < rows.length * perRow) {
      this.#elements = new Float32Array(rows.length * perRow);
    }
    const elements = this.#elements.subarray(0, rows.length * perRow);
    rows.forEach(({ image, format }, row) => {
      const output = elements.subarray(row * perRow, (row + 1) * perRow);
      resizeNormalize(image.pixels, format, output);
    });
    return new Tensor("float32", elements, computeTensorDims(rows));
  }

  mask({ pixels }: OpenImage, { masks, index, format }: MaskRow): Promise<MaskedImage> {
    const size = format.width * format.height;
    const elements = masks.data as Float32Array;
    const values = elements.slice(index * size, (index + 1) * size);
    return Promise.resolve({ pixels, mask: { values, format } });
  }

  dispose(): void {}
}

type Floats = Float32Array<ArrayBuffer> | Float16Array<ArrayBuffer>;

export class CpuSpeech implements SpeechKernels {
  readonly #options: SpeechOptions;
  readonly #logMel: ReferenceLogMel;
  readonly #features: Float32Array<ArrayBuffer>;

  constructor(options: SpeechOptions) {
    const { spec, maxRows, maxRecordings } = options;
    this.#options = options;
    this.#logMel = new ReferenceLogMel(spec, maxRecordings);
    this.#features = new Float32Array(maxRows * spec.mels * spec.frames);
  }

  forget(recording: number): void {
    this.#logMel.forget(recording);
  }

  measure(rows: readonly LogMelRow[]): void {
    for (const row of rows) this.#logMel.measure(row);
  }

  features(rows: readonly LogMelRow[]): Tensor {
    const { spec: { mels, frames }, featuresDtype } = this.#options;
    const features = this.#features.subarray(0, rows.length * mels * frames);
    this.#logMel.compute(rows, features);
    const dims = [rows.length, mels, frames];
    if (featuresDtype === "float32") return new Tensor("float32", features, dims);
    return new Tensor("float16", new Uint16Array(Float16Array.from(features).buffer), dims);
  }

  restrict(logits: Tensor, rules: readonly (TokenRule | undefined)[]): void {
    applyTokenRules(logits.data as Floats, rules, this.#options.rules);
  }

  dispose(): void {}
}
