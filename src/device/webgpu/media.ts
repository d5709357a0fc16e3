/**
 * Operations on images and recordings on a GPU.
 *
 * @module
 */
import {
  CompositeAlpha,
  countIntermediateBytes,
  type ImageBuffer,
  ResizeNormalize,
  type TensorSlice,
} from "../../../kernels/images/image_kernels.ts";
import { resizeNormalize } from "../../../kernels/images/image_reference.ts";
import { createStorage, type GpuContext } from "../../gpu/device.ts";
import { Readback } from "../../gpu/readback.ts";
import { type Pixels, toRgba } from "../../media/pixels.ts";
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
import { LogMel } from "../../../kernels/log_mel/log_mel.ts";
import type { LogMelRow } from "../../../kernels/log_mel/log_mel_spec.ts";
import type { TokenRule } from "../../../kernels/sample/sample_row.ts";
import { TokenRules } from "../../../kernels/sample/token_rules.ts";
import { elemBytes, toElem } from "../../gpu/kernel.ts";

const STAGING_BYTES = 2 ** 24;
const F32_BYTES = Float32Array.BYTES_PER_ELEMENT;

/** An image, and its copy on the device if it has one. */
interface DeviceImage extends OpenImage {
  readonly onDevice?: ImageBuffer;
}

/** Processes images on a GPU. Images that are larger than a binding of the device are processed on the CPU. */
export class WebGpuImages implements ImageKernels {
  readonly #gpu: GpuContext;
  readonly #readback: Readback;
  readonly #maxBytes: number;
  readonly #resize: ResizeNormalize;
  readonly #composite: CompositeAlpha;
  #tensor: GPUBuffer | undefined;

  private constructor(gpu: GpuContext, readback: Readback, maxBytes: number) {
    this.#gpu = gpu;
    this.#readback = readback;
    this.#maxBytes = maxBytes;
    this.#resize = new ResizeNormalize(gpu);
    this.#composite = new CompositeAlpha(gpu);
  }

  static async create(
    gpu: GpuContext,
    { takesImages = !gpu.isFallbackAdapter }: {
      /**
       * Whether images are processed on the device, and not only tensors and masks. The default is false on a software
       * adapter, where the shaders take two to five times as long as the reference implementations.
       */
      readonly takesImages?: boolean | undefined;
    } = {},
  ): Promise<WebGpuImages> {
    const { maxBufferSize, maxStorageBufferBindingSize } = gpu.limits;
    const maxBytes = takesImages ? Math.min(maxBufferSize, maxStorageBufferBindingSize) : 0;
    return new WebGpuImages(
      gpu,
      await Readback.create(gpu, { maxBytes: STAGING_BYTES }),
      maxBytes,
    );
  }

  open(pixels: Pixels): OpenImage {
    const { width, height } = pixels;
    if (4 * width * height > this.#maxBytes) return { pixels, close: () => {} };
    const rgba = toRgba(pixels);
    const buffer = createStorage(this.#gpu, "image", rgba.data.byteLength);
    this.#gpu.device.queue.writeBuffer(buffer, 0, rgba.data);
    const image: DeviceImage = {
      pixels: rgba,
      onDevice: { buffer, width, height },
      close: () => buffer.destroy(),
    };
    return image;
  }

  toTensor(rows: readonly TensorRow[]): Tensor {
    const perRow = countElementsPerRow(rows);
    const size = rows.length * perRow * F32_BYTES;
    if (this.#tensor === undefined || this.#tensor.size < size) {
      this.#tensor?.destroy();
      this.#tensor = createStorage(this.#gpu, "tensor of images", size);
    }
    for (const [row, each] of rows.entries()) {
      this.#fillRow(each, { buffer: this.#tensor, start: row * perRow });
    }
    return Tensor.fromGpuBuffer(this.#tensor, {
      dataType: "float32",
      dims: computeTensorDims(rows),
    });
  }

  async mask(image: OpenImage, { masks, index, format }: MaskRow): Promise<MaskedImage> {
    const { pixels, onDevice } = image as DeviceImage;
    const size = format.width * format.height;
    const slice: TensorSlice = { buffer: masks.gpuBuffer as GPUBuffer, start: index * size };
    if (onDevice === undefined) {
      const bytes = new Uint8Array(size * F32_BYTES);
      await this.#read(slice.buffer, { offset: slice.start * F32_BYTES, into: bytes });
      return { pixels, mask: { values: new Float32Array(bytes.buffer), format } };
    }
    this.#composite.encode(this.#gpu.commands, { image: onDevice, mask: slice, format });
    this.#gpu.commands.submit();
    const cutOut = { ...pixels, data: new Uint8Array(pixels.data.length) };
    await this.#read(onDevice.buffer, { offset: 0, into: cutOut.data });
    return { pixels: cutOut };
  }

  dispose(): void {
    this.#resize.dispose();
    this.#composite.dispose();
    this.#readback.dispose();
    this.#tensor?.destroy();
  }

  #fillRow({ image, format }: TensorRow, output: TensorSlice): void {
    const { pixels, onDevice } = image as DeviceImage;
    if (onDevice !== undefined && countIntermediateBytes(pixels.height, format) <= this.#maxBytes) {
      this.#resize.encode(this.#gpu.commands, { image: onDevice, format, output });
      this.#gpu.commands.submit();
      return;
    }
    const elements = new Float32Array(countElementsPerRow([{ image, format }]));
    resizeNormalize(pixels, format, elements);
    this.#gpu.device.queue.writeBuffer(output.buffer, output.start * F32_BYTES, elements);
  }

  /** Reads back `into.length` bytes, a staging buffer at a time. */
  async #read(
    buffer: GPUBuffer,
    { offset, into }: { offset: number; into: Uint8Array },
  ): Promise<void> {
    for (let at = 0; at < into.length; at += STAGING_BYTES) {
      const size = Math.min(STAGING_BYTES, into.length - at);
      const encoder = this.#gpu.device.createCommandEncoder();
      into.set(await this.#readback.read(encoder, [{ buffer, offset: offset + at, size }]), at);
    }
  }
}

export class WebGpuSpeech implements SpeechKernels {
  readonly #gpu: GpuContext;
  readonly #options: SpeechOptions;
  readonly #logMel: LogMel;
  readonly #rules: TokenRules;
  readonly #features: GPUBuffer;

  constructor(gpu: GpuContext, options: SpeechOptions) {
    const { spec, rules, featuresDtype, logitsDtype, maxRows, maxRecordings } = options;
    const elem = toElem(featuresDtype);
    this.#gpu = gpu;
    this.#options = options;
    this.#logMel = new LogMel(gpu, { spec, elem, maxRows, maxRecordings });
    this.#rules = new TokenRules(gpu, { ...rules, elem: toElem(logitsDtype), maxRows });
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
