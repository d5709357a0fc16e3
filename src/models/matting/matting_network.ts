/**
 * A background-removal graph with the work around it: pictures in, masks for them out.
 *
 * @module
 */
import type { MaskForm, TensorForm } from "../../../kernels/picture_form.ts";
import type { ImageKernels, MaskedPicture, OpenPicture } from "../../backend/images.ts";
import { HearthError } from "../../errors.ts";
import type { ResampleFilter } from "../../media/resample.ts";
import type { Session, Tensor } from "../../onnx/ort.ts";
import { MASKS, PICTURES } from "./matting_graph.ts";
import { type PictureProcessor, type Size, tensorFormOf } from "../picture_processor.ts";

/** Masks are brought to a picture's size smoothly: the other filters ring at edges or show the mask's pixels. */
const MASK_FILTER: ResampleFilter = "bilinear";

/** What a network is made of; it owns the session and the kernels. */
export interface MattingNetworkParts {
  /** With one input and one output, {@linkcode PICTURES} and {@linkcode MASKS}. */
  readonly session: Session;
  readonly images: ImageKernels;
  readonly processor: PictureProcessor;
  readonly layout: TensorForm["layout"];
  /** Of the graph's input, where that is fixed. */
  readonly size: Size | undefined;
}

/** A picture on its way through the network. */
export interface MattingRow {
  readonly picture: OpenPicture;
  readonly form: TensorForm;
}

/** See the module. One call at a time. */
export class MattingNetwork {
  readonly images: ImageKernels;
  readonly #parts: MattingNetworkParts;

  constructor(parts: MattingNetworkParts) {
    this.images = parts.images;
    this.#parts = parts;
  }

  /** How the graph is to see a picture; pictures of forms of one size share a batch. */
  formOf(picture: Size): TensorForm {
    const { processor, size: graph, layout } = this.#parts;
    return tensorFormOf(processor, { picture, graph, layout });
  }

  /** Runs the graph. @param rows of forms of one size. @returns their masks, the caller's. */
  async run(rows: readonly MattingRow[]): Promise<Tensor> {
    const { session, images } = this.#parts;
    return (await session.run({ [PICTURES]: images.toTensor(rows) }))[MASKS]!;
  }

  /** Gives a picture one of the masks of a run. */
  async mask({ picture, form }: MattingRow, masks: Tensor, index: number): Promise<MaskedPicture> {
    const size = maskSizeOf(masks);
    return await this.images.mask(picture, { masks, index, form: maskForm(form, size) });
  }

  async dispose(): Promise<void> {
    this.images.dispose();
    await this.#parts.session.release();
  }
}

/**
 * Width and height of each of a tensor's masks, `[masks, 1, height, width]`, `[masks, height, width, 1]` or without the 1.
 *
 * @throws {HearthError} `inference_failed` when it holds no masks.
 */
export function maskSizeOf({ dims }: Pick<Tensor, "dims">): Size {
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

/** The part of a mask that belongs to the picture, and not to the border around it. */
function maskForm(form: TensorForm, { width, height }: Size): MaskForm {
  return {
    width,
    height,
    contentWidth: width * form.contentWidth / form.width,
    contentHeight: height * form.contentHeight / form.height,
    filter: MASK_FILTER,
  };
}
