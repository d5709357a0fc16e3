/**
 * `resize_normalize` on the GPU: writes an image into a model's input buffer.
 *
 * `image_reference.ts` has the formula.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import { type TensorFormat, weighAxis } from "./image_format.ts";
import source from "./resize_normalize.wgsl" with { type: "text" };
import rowsSource from "./resize_rows.wgsl" with { type: "text" };
import type { Weights } from "../../src/media/resample_filter.ts";

const ROWS_BINDINGS = {
  image: "read",
  columns: "read",
  weights: "read",
  sizes: "read",
  wide: "read_write",
} as const;
const BINDINGS = {
  wide: "read",
  rows: "read",
  weights: "read",
  format: "read",
  output: "read_write",
} as const;

const WORKGROUP = { WG_X: 16, WG_Y: 8 } as const;
const SIZES_WORDS = 4;
/** Number of words in the shader's `Format`, whose size must be a multiple of 16 bytes. */
const FORM_WORDS = 16;
const BYTES_PER_WIDE_PIXEL = 4;
const CHANNELS = 3;

/** An image in device memory: u32 `[height, width]`, red in the lowest byte. */
export interface ImageBuffer {
  readonly buffer: GPUBuffer;
  readonly width: number;
  readonly height: number;
}

/** Where a tensor is written. */
export interface TensorSlice {
  /** An f32 storage buffer of the caller. */
  readonly buffer: GPUBuffer;
  /** Index of the first element. */
  readonly start: number;
}

/** Bytes of the intermediate image, which must fit into one binding. */
export function intermediateBytes(imageHeight: number, { contentWidth }: TensorFormat): number {
  return imageHeight * contentWidth * BYTES_PER_WIDE_PIXEL;
}

/** Resizes and normalises images of any size. Its memory grows to the needs of the largest image. */
export class ResizeNormalize {
  readonly #gpu: GpuContext;
  readonly #shrinkRows: Kernel<typeof ROWS_BINDINGS>;
  readonly #normalize: Kernel<typeof BINDINGS>;
  readonly #columns: AxisTable;
  readonly #rows: AxisTable;
  readonly #sizes: GPUBuffer;
  readonly #format: GPUBuffer;
  #wide: GPUBuffer | undefined;

  constructor(gpu: GpuContext) {
    this.#gpu = gpu;
    this.#shrinkRows = Kernel.get(gpu, {
      name: "resize_rows",
      source: rowsSource,
      bindings: ROWS_BINDINGS,
      constants: WORKGROUP,
    });
    this.#normalize = Kernel.get(gpu, {
      name: "resize_normalize",
      source,
      bindings: BINDINGS,
      constants: WORKGROUP,
    });
    this.#columns = new AxisTable(gpu, "resize_normalize columns");
    this.#rows = new AxisTable(gpu, "resize_normalize rows");
    this.#sizes = this.#allocate("sizes", 4 * SIZES_WORDS);
    this.#format = this.#allocate("format", 4 * FORM_WORDS);
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
    const wide = this.#reserve(intermediateBytes(height, format));
    this.#shrinkRows.encode(pass, {
      image: image.buffer,
      columns: columns.spans,
      weights: columns.weights,
      sizes: this.#sizes,
      wide,
    }, workgroups(contentWidth, height));
    this.#normalize.encode(pass, {
      wide,
      rows: rows.spans,
      weights: rows.weights,
      format: this.#format,
      output: output.buffer,
    }, workgroups(format.width, format.height));
  }

  /** Frees its buffers; work submitted before still runs. */
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
    const words = new Uint32Array(FORM_WORDS);
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
  return [Math.ceil(width / WORKGROUP.WG_X), Math.ceil(height / WORKGROUP.WG_Y)];
}

const SPAN_WORDS = 2;

/** The resampling weights of an axis in device memory: two buffers, which grow to the longest axis so far. It owns them. */
export class AxisTable {
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

  /** Frees its buffers; work submitted before still runs. */
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
