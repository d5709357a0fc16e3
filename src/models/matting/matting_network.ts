/**
 * A background-removal graph with pre- and postprocessing: images in, masks out.
 *
 * @module
 */
import type { MaskFormat, TensorFormat } from "../../../kernels/images/image_format.ts";
import type { Backend } from "../../device/backend.ts";
import type { ImageKernels, MaskedImage, OpenImage } from "../../device/images.ts";
import { HearthError } from "../../base/errors.ts";
import type { ResampleFilter } from "../../media/resample.ts";
import type { GraphSession, Tensor } from "../../device/ort/ort.ts";
import { IMAGES, MASKS, type MattingGraph } from "./matting_graph.ts";
import {
  computeTensorFormat,
  type PreprocessorConfig,
  type Size,
} from "../folder/preprocessor_config.ts";

/** Filter for enlarging masks: other filters ring at edges, or show the mask's pixels. */
const MASK_FILTER: ResampleFilter = "bilinear";

/**
 * Most pixels of input in one batch, since a graph's activations grow with them. On the CPU batching saves only a
 * twentieth of an image's time, and all images of a batch wait for the last.
 */
const MAX_BATCH_PIXELS: Readonly<Record<Backend["kind"], number>> = {
  cpu: 2 ** 17,
  webgpu: 2 ** 19,
};

/** The parts of a network; it owns the session and the kernels. */
interface MattingNetworkParts {
  readonly backend: Backend;
  /** The session of a unified graph, with input {@linkcode IMAGES} and output {@linkcode MASKS}. */
  readonly session: GraphSession;
  readonly images: ImageKernels;
  readonly processor: PreprocessorConfig;
  readonly graph: Pick<MattingGraph, "layout" | "size" | "takesBatches">;
}

export interface MattingRow {
  readonly image: OpenImage;
  readonly format: TensorFormat;
}

/** Runs one call at a time. */
export class MattingNetwork {
  readonly images: ImageKernels;
  readonly #parts: MattingNetworkParts;

  constructor(parts: MattingNetworkParts) {
    this.images = parts.images;
    this.#parts = parts;
  }

  /** The format in which the graph takes an image. Images whose formats have one size can share a batch. */
  chooseFormat(image: Size): TensorFormat {
    const { processor, graph: { size, layout } } = this.#parts;
    return computeTensorFormat(processor, { image, graph: size, layout });
  }

  /** Most images of a format in one run. */
  chooseBatchSize({ width, height }: TensorFormat): number {
    const { backend, graph } = this.#parts;
    if (!graph.takesBatches) return 1;
    return Math.max(1, Math.floor(MAX_BATCH_PIXELS[backend.kind] / (width * height)));
  }

  /**
   * Runs the graph.
   *
   * @param rows images whose formats have one size.
   * @returns their masks, owned by the caller.
   */
  async run(rows: readonly MattingRow[]): Promise<Tensor> {
    const { session, images } = this.#parts;
    return (await session.run({ [IMAGES]: images.toTensor(rows) }))[MASKS]!;
  }

  /** Applies one of a run's masks to its image. */
  async mask({ image, format }: MattingRow, masks: Tensor, index: number): Promise<MaskedImage> {
    const size = readMaskSize(masks);
    return await this.images.mask(image, { masks, index, format: toMaskFormat(format, size) });
  }

  async dispose(): Promise<void> {
    this.images.dispose();
    await this.#parts.session.release();
  }
}

/**
 * Width and height of the masks in a tensor, `[masks, 1, height, width]`, `[masks, height, width, 1]`, or either
 * without the 1.
 *
 * @throws {HearthError} `inference_failed` when the tensor holds no masks.
 */
export function readMaskSize({ dims }: Pick<Tensor, "dims">): Size {
  const [, ...rest] = dims;
  const axis = rest.length === 3 ? rest[0] === 1 ? 0 : rest[2] === 1 ? 2 : -1 : -1;
  const [height, width] = axis < 0 ? rest : rest.toSpliced(axis, 1);
  if (height !== undefined && width !== undefined && rest.length - Number(axis >= 0) === 2) {
    return { width, height };
  }
  throw new HearthError(
    "inference_failed",
    `The graph gives [${dims.join(", ")}] where masks of one channel are wanted.`,
  );
}

/** The part of a mask that covers the image, without the border around it. */
function toMaskFormat(format: TensorFormat, { width, height }: Size): MaskFormat {
  return {
    width,
    height,
    contentWidth: width * format.contentWidth / format.width,
    contentHeight: height * format.contentHeight / format.height,
    filter: MASK_FILTER,
  };
}
