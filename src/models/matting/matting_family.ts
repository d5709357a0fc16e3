/**
 * Known families of background-removal models, for what their folders do not say.
 *
 * @module
 */
import type { Json } from "../../hub/model_folder.ts";

export interface MattingFamily {
  readonly name: string;
  /** Used if the folder has no `preprocessor_config.json`. */
  readonly processor: Json;
  /** Whether its authors stretch each mask to reach from 0 to 1. */
  readonly stretches: boolean;
  /** Which of several outputs is the mask, if no name says so. */
  readonly mask: "first" | "last";
}

const IMAGENET = {
  do_normalize: true,
  image_mean: [0.485, 0.456, 0.406],
  image_std: [0.229, 0.224, 0.225],
};
const CENTERED = { do_normalize: true, image_mean: 0.5, image_std: 1 };
const SQUARE = { size: { width: 1024, height: 1024 } };

/** Tried in order. */
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
    // The others are its coarser scales.
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

const UNKNOWN: MattingFamily = {
  name: "unknown",
  processor: { ...SQUARE, ...CENTERED },
  stretches: false,
  mask: "first",
};

/** The family of a folder, by its configuration. */
export function mattingFamilyOf(config: Json): MattingFamily {
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
