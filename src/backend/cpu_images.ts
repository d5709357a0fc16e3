/**
 * The kernels of pictures on the CPU: their references.
 *
 * @module
 */
import { compositeAlpha } from "../../kernels/composite_alpha_reference.ts";
import { resizeNormalize } from "../../kernels/resize_normalize_reference.ts";
import type { Pixels } from "../media/pixels.ts";
import { Tensor } from "../onnx/ort.ts";
import { elementsPerRow, tensorDims } from "./image_tensor.ts";
import type { ImageKernels, MaskRow, OpenPicture, TensorRow } from "./images.ts";

/** See the module. */
export class CpuImages implements ImageKernels {
  #elements = new Float32Array();

  open(pixels: Pixels): OpenPicture {
    return { pixels, close: () => {} };
  }

  toTensor(rows: readonly TensorRow[]): Tensor {
    const perRow = elementsPerRow(rows);
    if (this.#elements.length < rows.length * perRow) {
      this.#elements = new Float32Array(rows.length * perRow);
    }
    const elements = this.#elements.subarray(0, rows.length * perRow);
    rows.forEach(({ picture, form }, row) => {
      const output = elements.subarray(row * perRow, (row + 1) * perRow);
      resizeNormalize(picture.pixels, form, output);
    });
    return new Tensor("float32", elements, tensorDims(rows));
  }

  compositeAlpha({ pixels }: OpenPicture, { masks, index, form }: MaskRow): Promise<Pixels> {
    const size = form.width * form.height;
    const elements = masks.data as Float32Array;
    const mask = elements.subarray(index * size, (index + 1) * size);
    return Promise.resolve(compositeAlpha(pixels, mask, form));
  }

  dispose(): void {}
}
