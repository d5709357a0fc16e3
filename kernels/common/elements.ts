/**
 * WGSL that declares the elements of tensors, one or four at a time. It must be the first part of a shader.
 *
 * @module
 */
import type { Elem } from "../../src/gpu/kernel.ts";
import { expand } from "./expand.ts";
import fourSource from "./four.wgsl" with { type: "text" };

/** WGSL that declares `elem`, a single element, by element type. */
export const ELEM: Readonly<Record<Elem, string>> = {
  f32: "alias elem = f32;\n",
  f16: "enable f16;\nalias elem = f16;\n",
};

/** WGSL that declares `four`, `unpack` and `pack`, by element type. */
export const FOUR: Readonly<Record<Elem, string>> = {
  f32: expand(fourSource, { IS_F32: true, IS_F16: false, IS_HALF: false }),
  f16: expand(fourSource, { IS_F32: false, IS_F16: true, IS_HALF: false }),
};

/** {@linkcode FOUR} for f16, if the kernel also computes in f16. */
export const HALF_FOUR: string = expand(fourSource, {
  IS_F32: false,
  IS_F16: false,
  IS_HALF: true,
});
