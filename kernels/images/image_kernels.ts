/**
 * The image kernels on the GPU: `resize_normalize` writes an image into a model's input buffer, and `composite_alpha`
 * multiplies an image's alpha by a mask, in device memory. `image_reference.ts` has the formulas.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import { type MaskFormat, type TensorFormat, weighAxis } from "./image_reference.ts";
import resizeSource from "./resize_normalize.wgsl" with { type: "text" };
import type { Weights } from "../../src/media/resample_filter.ts";
import compositeSource from "./composite_alpha.wgsl" with { type: "text" };

const ROWS_BINDINGS = {
  image: "read",
  columns: "read",
  weights: "read",
  sizes: "read",
  wide: "read_write",
} as const;
const RESIZE_BINDINGS = {
  resized: "read",
  rows: "read",
  weights: "read",
  format: "read",
  output: "read_write",
} as const;

const RESIZE_WORKGROUP = { WG_X: 16, WG_Y: 8 } as const;
const SIZES_WORDS = 4;
/** Number of words in the shader's `Format`, whose size must be a multiple of 16 bytes. */
const FORMAT_WORDS = 16;
const BYTES_PER_WIDE_PIXEL = 4;
const CHANNELS = 3;

/** An image in device memory: u32 `[height, width]`, red in the lowest byte. */
export interface ImageBuffer {
  readonly buffer: GPUBuffer;
  readonly width: number;
  readonly height: number;
}

/** The destination of a tensor. */
export interface TensorSlice {
  /** An f32 storage buffer of the caller. */
  readonly buffer: GPUBuffer;
  /** Index of the first element. */
  readonly start: number;
}

/** Bytes of the intermediate image, which must fit into one binding. */
export function countIntermediateBytes(
  imageHeight: number,
  { contentWidth }: TensorFormat,
): number {
  return imageHeight * contentWidth * BYTES_PER_WIDE_PIXEL;
}

/** Resizes and normalises images of any size. Its memory grows to the needs of the largest image. */
export class ResizeNormalize {
  readonly #gpu: GpuContext;
  readonly #shrinkRows: Kernel<typeof ROWS_BINDINGS>;
  readonly #normalize: Kernel<typeof RESIZE_BINDINGS>;
  readonly #columns: AxisTable;
  readonly #rows: AxisTable;
  readonly #sizes: GPUBuffer;
  readonly #format: GPUBuffer;
  #wide: GPUBuffer | undefined;

  constructor(gpu: GpuContext) {
    this.#gpu = gpu;
    this.#shrinkRows = Kernel.get(gpu, {
      name: "resize_rows",
      source: resizeSource,
      bindings: ROWS_BINDINGS,
      constants: RESIZE_WORKGROUP,
    });
    this.#normalize = Kernel.get(gpu, {
      name: "resize_normalize",
      source: resizeSource,
      bindings: RESIZE_BINDINGS,
      constants: RESIZE_WORKGROUP,
    });
    this.#columns = new AxisTable(gpu, "resize_normalize columns");
    this.#rows = new AxisTable(gpu, "resize_normalize rows");
    this.#sizes = this.#allocate("sizes", 4 * SIZES_WORDS);
    this.#format = this.#allocate("format", 4 * FORMAT_WORDS);
  }

  /**
   * Uploads the weights, and appends the work: two dispatches. Submit it before the next call, which overwrites the
   * upload.
   */
  encode(
    pass: ComputePass,
    { image, format, output }: { image: ImageBuffer; format: TensorFormat; output: TensorSlice },
  ): void {
    const { width, height } = image;
    const { contentWidth, contentHeight, filter } = format;
    const across = weighAxis(width, contentWidth, filter);
    const down = weighAxis(height, contentHeight, filter);
    const columns = this.#columns.write(across);
    const rows = this.#rows.write(down);
    const sizes = Uint32Array.of(width, height, contentWidth, across.stride);
    this.#gpu.device.queue.writeBuffer(this.#sizes, 0, sizes);
    this.#writeFormat(format, down.stride, output.start);
    const wide = this.#reserve(countIntermediateBytes(height, format));
    this.#shrinkRows.encode(pass, {
      image: image.buffer,
      columns: columns.spans,
      weights: columns.weights,
      sizes: this.#sizes,
      wide,
    }, workgroups(contentWidth, height));
    this.#normalize.encode(pass, {
      resized: wide,
      rows: rows.spans,
      weights: rows.weights,
      format: this.#format,
      output: output.buffer,
    }, workgroups(format.width, format.height));
  }

  /** Frees the buffers. Work that has been submitted still runs. */
  dispose(): void {
    this.#columns.dispose();
    this.#rows.dispose();
    this.#sizes.destroy();
    this.#format.destroy();
    this.#wide?.destroy();
  }

  #writeFormat(format: TensorFormat, stride: number, start: number): void {
    const { layout, width, height, contentWidth, contentHeight, scale, offset } = format;
    const [channelStep, pixelStep] = layout === "nchw" ? [width * height, 1] : [1, CHANNELS];
    const words = new Uint32Array(FORMAT_WORDS);
    const floats = new Float32Array(words.buffer);
    floats.set(scale, 0);
    words[3] = width;
    floats.set(offset, 4);
    words.set(
      [height, contentWidth, contentHeight, stride, start, channelStep, pixelStep],
      7,
    );
    this.#gpu.device.queue.writeBuffer(this.#format, 0, words);
  }

  #reserve(size: number): GPUBuffer {
    if (this.#wide === undefined || this.#wide.size < size) {
      this.#wide?.destroy();
      this.#wide = this.#allocate("wide", size);
    }
    return this.#wide;
  }

  #allocate(label: string, size: number): GPUBuffer {
    return createStorage(this.#gpu, `resize_normalize ${label}`, size);
  }
}

function workgroups(width: number, height: number): [number, number] {
  return [Math.ceil(width / RESIZE_WORKGROUP.WG_X), Math.ceil(height / RESIZE_WORKGROUP.WG_Y)];
}

const SPAN_WORDS = 2;

/** Keeps the resampling weights of an axis in two buffers, which grow to the longest axis so far. */
class AxisTable {
  readonly #gpu: GpuContext;
  readonly #label: string;
  #spans: GPUBuffer | undefined;
  #weights: GPUBuffer | undefined;

  constructor(gpu: GpuContext, label: string) {
    this.#gpu = gpu;
    this.#label = label;
  }

  /**
   * Uploads an axis, before any work that is submitted later.
   *
   * @returns `Span [outputs]` and `f32 [outputs, stride]`, valid until the next call.
   */
  write({ first, count, values }: Weights): { spans: GPUBuffer; weights: GPUBuffer } {
    const spans = new Uint32Array(SPAN_WORDS * first.length);
    for (let i = 0; i < first.length; i++) {
      spans[SPAN_WORDS * i] = first[i]!;
      spans[SPAN_WORDS * i + 1] = count[i]!;
    }
    this.#spans = this.#upload(this.#spans, spans);
    this.#weights = this.#upload(this.#weights, Float32Array.from(values));
    return { spans: this.#spans, weights: this.#weights };
  }

  /** Frees the buffers. Work that has been submitted still runs. */
  dispose(): void {
    this.#spans?.destroy();
    this.#weights?.destroy();
  }

  #upload(
    buffer: GPUBuffer | undefined,
    data: Uint32Array<ArrayBuffer> | Float32Array<ArrayBuffer>,
  ): GPUBuffer {
    let fitting = buffer;
    if (fitting === undefined || fitting.size < data.byteLength) {
      fitting?.destroy();
      fitting = createStorage(this.#gpu, this.#label, data.byteLength);
    }
    this.#gpu.device.queue.writeBuffer(fitting, 0, data);
    return fitting;
  }
}

const COMPOSITE_BINDINGS = {
  mask: "read",
  columns: "read",
  column_weights: "read",
  rows: "read",
  row_weights: "read",
  sizes: "read",
  image: "read_write",
} as const;

const COMPOSITE_WORKGROUP = { WG_X: 32, WG_Y: 4 } as const;
const COMPOSITE_WORDS = 6;

/** Multiplies images' alpha by masks. Its memory grows to the longest sides so far. */
export class CompositeAlpha {
  readonly #gpu: GpuContext;
  readonly #kernel: Kernel<typeof COMPOSITE_BINDINGS>;
  readonly #columns: AxisTable;
  readonly #rows: AxisTable;
  readonly #sizes: GPUBuffer;

  constructor(gpu: GpuContext) {
    this.#gpu = gpu;
    this.#kernel = Kernel.get(gpu, {
      name: "composite_alpha",
      source: compositeSource,
      bindings: COMPOSITE_BINDINGS,
      constants: COMPOSITE_WORKGROUP,
    });
    this.#columns = new AxisTable(gpu, "composite_alpha columns");
    this.#rows = new AxisTable(gpu, "composite_alpha rows");
    this.#sizes = createStorage(gpu, "composite_alpha sizes", 4 * COMPOSITE_WORDS);
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
    }, [Math.ceil(width / COMPOSITE_WORKGROUP.WG_X), Math.ceil(height / COMPOSITE_WORKGROUP.WG_Y)]);
  }

  /** Frees the buffers. Work that has been submitted still runs. */
  dispose(): void {
    this.#columns.dispose();
    this.#rows.dispose();
    this.#sizes.destroy();
  }
}
