/**
 * A model's image preprocessing, as configured by `preprocessor_config.json` and the defaults of transformers.js.
 *
 * @module
 */
import type { TensorFormat } from "../../../kernels/images/image_reference.ts";
import { StartupError } from "../../base/errors.ts";
import type { ResampleFilter } from "../../media/resample.ts";
import { RESAMPLE_FILTERS } from "../../media/resample_filter.ts";
import type { Json } from "../../hub/model_folder.ts";

/** Settings that are not supported, some because they would misplace the mask. */
const REFUSED = [
  "do_center_crop",
  "do_crop_margin",
  "do_thumbnail",
  "do_flip_channel_order",
  "keep_aspect_ratio",
];

/** Width and height in pixels. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

type Triple = readonly [number, number, number];

/** The size to which images are resized; `undefined` if they are not. */
type SizeRule =
  | Size
  /** Keeps the aspect ratio: the shorter side becomes `shortestEdge` unless the longer one would exceed `longestEdge`. */
  | { readonly shortestEdge?: number | undefined; readonly longestEdge?: number | undefined }
  | undefined;

export interface PreprocessorConfig extends Levels {
  readonly size: SizeRule;
  /** Both sides become multiples of this, by shrinking the image or adding a border. */
  readonly multipleOf: number;
  readonly border: "none" | "toMultiple" | Size;
  readonly filter: ResampleFilter;
}

/** @throws {StartupError} when a setting is not supported. */
export function readPreprocessorConfig(config: Json): PreprocessorConfig {
  const refused = REFUSED.find((name) => config[name] === true);
  if (refused !== undefined) {
    throw new StartupError(`preprocessor_config.json: ${refused} is not supported.`);
  }
  const given = config["size"] ?? config["image_size"];
  const size = config["do_resize"] ?? given !== undefined
    ? readSize(given, config["max_size"])
    : undefined;
  const multipleOf = Number(config["size_divisibility"] ?? config["size_divisor"] ?? 1);
  const filter = RESAMPLE_FILTERS[Number(config["resample"] ?? 2)];
  if (filter === undefined) {
    throw new StartupError(
      `preprocessor_config.json: resample: want a number from 0 to 5, saw ${config["resample"]}.`,
    );
  }
  return {
    size,
    multipleOf,
    border: readBorder(config, size, multipleOf),
    filter,
    ...readLevels(config),
  };
}

/**
 * How pixel levels, 0 to 255, become the graph's numbers: `level · scale + offset`, for each channel in the graph's
 * order.
 */
export interface Levels {
  readonly scale: Triple;
  readonly offset: Triple;
}

/**
 * Combines rescaling and normalisation into one multiplication and one addition.
 *
 * @param options.mean mean of each channel after rescaling.
 */
export function readLevelRange(
  { rescale = 1 / 255, mean, std }: {
    readonly rescale?: number;
    readonly mean: readonly number[];
    readonly std: readonly number[];
  },
): Levels {
  const perChannel = (compute: (channel: 0 | 1 | 2) => number): Triple => [
    compute(0),
    compute(1),
    compute(2),
  ];
  return {
    scale: perChannel((channel) => rescale / std[channel]!),
    offset: perChannel((channel) => (0 - mean[channel]!) / std[channel]!),
  };
}

function readLevels(config: Json): Levels {
  const rescale = config["do_rescale"] === false ? 1 : Number(config["rescale_factor"] ?? 1 / 255);
  const isNormalized = config["do_normalize"] === true;
  const mean = isNormalized ? toTriple(config["image_mean"] ?? config["mean"], 0) : [0, 0, 0];
  const std = isNormalized ? toTriple(config["image_std"] ?? config["std"], 1) : [1, 1, 1];
  return readLevelRange({ rescale, mean, std });
}

function toTriple(value: unknown, fallback: number): number[] {
  const values = Array.isArray(value) ? value : Array(3).fill(value ?? fallback);
  if (values.length === 3 && values.every((each) => typeof each === "number")) return values;
  throw new StartupError(
    `preprocessor_config.json: image_mean and image_std: want 3 numbers, saw ${
      JSON.stringify(value)
    }.`,
  );
}

function readSize(size: unknown, maxSize: unknown): SizeRule {
  if (typeof size === "number") {
    return { shortestEdge: size, longestEdge: Number(maxSize ?? size) };
  }
  const named = (size ?? {}) as Json;
  const [width, height] = [named["width"], named["height"]];
  if (typeof width === "number" && typeof height === "number") return { width, height };
  const [shortest, longest] = [named["shortest_edge"], named["longest_edge"]];
  if (shortest === undefined && longest === undefined) return undefined;
  return {
    shortestEdge: shortest === undefined ? undefined : Number(shortest),
    longestEdge: longest === undefined ? undefined : Number(longest),
  };
}

function readBorder(
  config: Json,
  size: SizeRule,
  multipleOf: number,
): PreprocessorConfig["border"] {
  if (config["do_pad"] !== true) return "none";
  const given = config["pad_size"];
  if (typeof given === "number") return { width: given, height: given };
  const { width, height } = (given ?? {}) as Json;
  if (typeof width === "number" && typeof height === "number") return { width, height };
  if (multipleOf > 1) return "toMultiple";
  return size !== undefined && "width" in size ? size : "none";
}

/**
 * Computes the format of an image's tensor. If the graph's input has another, fixed size, images are stretched to that.
 */
export function computeTensorFormat(
  processor: PreprocessorConfig,
  { image, graph, layout }: {
    readonly image: Size;
    readonly graph: Size | undefined;
    readonly layout: TensorFormat["layout"];
  },
): TensorFormat {
  const content = computeContent(processor, image);
  const whole = computeBordered(processor, content);
  const { filter, scale, offset } = processor;
  const agrees = graph === undefined ||
    graph.width === whole.width && graph.height === whole.height;
  const [inner, outer] = agrees ? [content, whole] : [graph, graph];
  return {
    layout,
    width: outer.width,
    height: outer.height,
    contentWidth: inner.width,
    contentHeight: inner.height,
    filter,
    scale,
    offset,
  };
}

function computeContent({ size, multipleOf, border }: PreprocessorConfig, image: Size): Size {
  if (size !== undefined && "width" in size) return size;
  const factor = size === undefined ? 1 : computeEdgeFactor(image, size);
  // Without a border, the image shrinks to a multiple; a border extends it to one.
  const step = border === "toMultiple" ? 1 : multipleOf;
  const fit = (length: number) => {
    // Rounded to two digits first, so that floating-point errors do not lose a pixel.
    const whole = Math.floor(Number((length * factor).toFixed(2)));
    return Math.max(step, Math.floor(whole / step) * step);
  };
  return { width: fit(image.width), height: fit(image.height) };
}

function computeEdgeFactor(
  { width, height }: Size,
  { shortestEdge, longestEdge }: {
    shortestEdge?: number | undefined;
    longestEdge?: number | undefined;
  },
): number {
  const [shorter, longer] = width < height ? [width, height] : [height, width];
  const factor = shortestEdge === undefined ? 1 : shortestEdge / shorter;
  return longestEdge === undefined ? factor : Math.min(factor, longestEdge / longer);
}

function computeBordered({ border, multipleOf }: PreprocessorConfig, content: Size): Size {
  if (border === "none") return content;
  const fit = (length: number) => Math.ceil(length / multipleOf) * multipleOf;
  const whole = border === "toMultiple"
    ? { width: fit(content.width), height: fit(content.height) }
    : border;
  return {
    width: Math.max(whole.width, content.width),
    height: Math.max(whole.height, content.height),
  };
}
