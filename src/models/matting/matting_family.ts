/**
 * Known families of background-removal models, with properties that their folders do not state.
 *
 * @module
 */
import type { Json } from "../../hub/model_folder.ts";

export interface MattingFamily {
  readonly name: string;
  /** Preprocessor settings for folders without a `preprocessor_config.json`. */
  readonly processor: Json;
  /** Whether each mask is stretched to the range from 0 to 1, as by the model's authors. */
  readonly stretches: boolean;
  /** The output that is the mask, if there are several and their names do not show it. */
  readonly mask: "first" | "last";
}

const IMAGENET = {
  do_normalize: true,
  image_mean: [0.485, 0.456, 0.406],
  image_std: [0.229, 0.224, 0.225],
};
const CENTERED = { do_normalize: true, image_mean: 0.5, image_std: 1 };
const SQUARE = { size: { width: 1024, height: 1024 } };

/** Families by a pattern of the architecture or `model_type`, tried in order. */
const FAMILIES: readonly (MattingFamily & { readonly pattern: RegExp })[] = [
  {
    name: "RMBG-1.4",
    pattern: /BriaRMBG/i,
    processor: { ...SQUARE, ...CENTERED },
    stretches: true,
    mask: "first",
  },
  {
    name: "BiRefNet",
    pattern: /birefnet/i,
    processor: { ...SQUARE, ...IMAGENET },
    stretches: false,
    // The other outputs are coarser scales of the mask.
    mask: "last",
  },
  {
    name: "MODNet",
    pattern: /modnet/i,
    processor: {
      size: { shortest_edge: 512 },
      size_divisibility: 32,
      do_normalize: true,
      image_mean: 0.5,
      image_std: 0.5,
    },
    stretches: false,
    mask: "last",
  },
  {
    name: "BEN",
    pattern: /^ben2?$|\bBEN/,
    processor: { ...SQUARE, ...IMAGENET, resample: 1 },
    stretches: true,
    mask: "first",
  },
  {
    name: "IS-Net",
    pattern: /isnet|ormbg/i,
    processor: { ...SQUARE, ...CENTERED },
    stretches: false,
    mask: "first",
  },
];

/** rembg's preprocessing: levels are relative to the brightest one in the resized image, and each mask is stretched. */
const REMBG = { stretches: true, mask: "first", isRelative: true } as const;
const U2NET: BareFamily = {
  ...REMBG,
  name: "U²-Net",
  processor: { size: { width: 320, height: 320 }, ...IMAGENET, resample: 1 },
};
const ISNET: BareFamily = {
  ...REMBG,
  name: "IS-Net",
  processor: { ...SQUARE, ...CENTERED, resample: 1 },
};
const LARGE: BareFamily = {
  ...REMBG,
  name: "BiRefNet",
  processor: { ...SQUARE, ...IMAGENET, resample: 1 },
};

/** A family of graphs that are published without a configuration. */
interface BareFamily extends MattingFamily {
  /** Whether levels are divided by the brightest level of the resized image. */
  readonly isRelative: true;
}

/** Families of graphs without a configuration, by the file's name, with rembg's preprocessing. */
const BARE: readonly (BareFamily & { readonly file: RegExp })[] = [
  { ...U2NET, file: /^(u2netp?|u2net_human_seg|silueta)\.onnx$/i },
  {
    ...ISNET,
    name: "IS-Net for anime",
    processor: { ...SQUARE, ...IMAGENET, image_std: 1, resample: 1 },
    file: /^isnet-anime\.onnx$/i,
  },
  { ...LARGE, file: /^birefnet[-\w.]*\.onnx$/i },
  { ...LARGE, name: "RMBG-2.0", file: /^(bria-rmbg|(bria-)?rmbg-2\.0)\.onnx$/i },
  { ...ISNET, name: "RMBG-1.4", file: /^(bria-)?rmbg(-1\.4)?\.onnx$/i },
  { ...ISNET, name: "BEN", file: /^ben2?(_base)?\.onnx$/i },
  { ...ISNET, file: /^isnet(-[\w-]+)?\.onnx$/i },
];

/** Width of U²-Net's input, which identifies the graph if its name does not. */
const U2NET_WIDTH = 320;

/** Finds the graph in a folder that holds only a single graph; `undefined` for other folders. */
export function findBareGraph(
  { files, config }: { readonly files: ReadonlySet<string>; readonly config: Json },
): string | undefined {
  const graphs = [...files].filter((file) => file.endsWith(".onnx"));
  const isBare = graphs.length === 1 && !graphs[0]!.includes("/") && !files.has("tokenizer.json") &&
    Object.keys(config).length === 0;
  return isBare ? graphs[0] : undefined;
}

/** Whether a file's name is that of a background-removal graph. */
export function isBareMatting(file: string | undefined): boolean {
  return file !== undefined && BARE.some((family) => family.file.test(file));
}

/**
 * Guesses the family of a graph without a configuration by its name, or else by its input.
 *
 * @param width width of the images that the graph takes; `undefined` if it is not fixed.
 */
export function guessFamily(file: string, width: number | undefined): BareFamily {
  return BARE.find((family) => family.file.test(file)) ?? (width === U2NET_WIDTH ? U2NET : ISNET);
}

const UNKNOWN: MattingFamily = {
  name: "unknown",
  processor: { ...SQUARE, ...CENTERED },
  stretches: false,
  mask: "first",
};

/** Identifies the family of a folder by its configuration. */
export function identifyFamily(config: Json): MattingFamily {
  return findFamily(config) ?? UNKNOWN;
}

/** Whether a configuration names one of the families. */
export function isMatting(config: Json): boolean {
  return findFamily(config) !== undefined;
}

function findFamily({ model_type: type, architectures }: Json): MattingFamily | undefined {
  const names = [type, ...Array.isArray(architectures) ? architectures : []].map(String);
  return FAMILIES.find(({ pattern }) => names.some((name) => pattern.test(name)));
}
