/**
 * Image kernels on the CPU: the reference implementations. Masks are applied later, in the next pass over the pixels.
 *
 * @module
 */
import { resizeNormalize } from "../../../kernels/images/resize_normalize_reference.ts";
import type { Pixels } from "../../media/pixels.ts";
import { Tensor } from "../ort/ort.ts";
import { elementsPerRow, tensorDims } from "../image_tensor.ts";
import type { ImageKernels, MaskedImage, MaskRow, OpenImage, TensorRow } from "../images.ts";

export class CpuImages implements ImageKernels {
  #elements = new Float32Array();

  open(pixels: Pixels): OpenImage {
    return { pixels, close: () => {} };
  }

  toTensor(rows: readonly TensorRow[]): Tensor {
    const perRow = elementsPerRow(rows);
    if (this.#elements.length < rows.length * perRow) {
      this.#elements = new Float32Array(rows.length * perRow);
    }
    const elements = this.#elements.subarray(0, rows.length * perRow);
    rows.forEach(({ image, format }, row) => {
      const output = elements.subarray(row * perRow, (row + 1) * perRow);
      resizeNormalize(image.pixels, format, output);
    });
    return new Tensor("float32", elements, tensorDims(rows));
  }

  mask({ pixels }: OpenImage, { masks, index, format }: MaskRow): Promise<MaskedImage> {
    const size = format.width * format.height;
    const elements = masks.data as Float32Array;
    const values = elements.slice(index * size, (index + 1) * size);
    return Promise.resolve({ pixels, mask: { values, format } });
  }

  dispose(): void {}
}
