/**
 * `composite_alpha` on the GPU: multiplies an image's alpha by a mask, in device memory.
 *
 * `image_reference.ts` has the formula.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import { AxisTable, type ImageBuffer, type TensorSlice } from "./resize_normalize.ts";
import source from "./composite_alpha.wgsl" with { type: "text" };
import { type MaskFormat, weighAxis } from "./image_format.ts";

const BINDINGS = {
  mask: "read",
  columns: "read",
  column_weights: "read",
  rows: "read",
  row_weights: "read",
  sizes: "read",
  image: "read_write",
} as const;

const WORKGROUP = { WG_X: 32, WG_Y: 4 } as const;
const SIZES_WORDS = 6;

/** Multiplies images' alpha by masks. Its memory grows to the longest sides so far. */
export class CompositeAlpha {
  readonly #gpu: GpuContext;
  readonly #kernel: Kernel<typeof BINDINGS>;
  readonly #columns: AxisTable;
  readonly #rows: AxisTable;
  readonly #sizes: GPUBuffer;

  constructor(gpu: GpuContext) {
    this.#gpu = gpu;
    this.#kernel = Kernel.get(gpu, {
      name: "composite_alpha",
      source,
      bindings: BINDINGS,
      constants: WORKGROUP,
    });
    this.#columns = new AxisTable(gpu, "composite_alpha columns");
    this.#rows = new AxisTable(gpu, "composite_alpha rows");
    this.#sizes = createStorage(gpu, "composite_alpha sizes", 4 * SIZES_WORDS);
  }

  /**
   * Uploads the weights, and appends the work: one dispatch. Submit it before the next call, which overwrites the
   * upload.
   *
   * @param options.image changed in place.
   */
  encode(
    pass: ComputePass,
    { image, mask, format }: { image: ImageBuffer; mask: TensorSlice; format: MaskFormat },
  ): void {
    const { width, height } = image;
    const across = weighAxis(format.contentWidth, width, format.filter);
    const down = weighAxis(format.contentHeight, height, format.filter);
    const columns = this.#columns.write(across);
    const rows = this.#rows.write(down);
    const sizes = Uint32Array.of(
      width,
      height,
      format.width,
      mask.start,
      across.stride,
      down.stride,
    );
    this.#gpu.device.queue.writeBuffer(this.#sizes, 0, sizes);
    this.#kernel.encode(pass, {
      mask: mask.buffer,
      columns: columns.spans,
      column_weights: columns.weights,
      rows: rows.spans,
      row_weights: rows.weights,
      sizes: this.#sizes,
      image: image.buffer,
    }, [Math.ceil(width / WORKGROUP.WG_X), Math.ceil(height / WORKGROUP.WG_Y)]);
  }

  /** Frees its buffers; work submitted before still runs. */
  dispose(): void {
    this.#columns.dispose();
    this.#rows.dispose();
    this.#sizes.destroy();
  }
}
