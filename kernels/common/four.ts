/**
 * WGSL to put before kernels that read and write tensors four elements at a time.
 *
 * @module
 */
import f16Source from "./four_f16.wgsl" with { type: "text" };
import f32Source from "./four_f32.wgsl" with { type: "text" };
import halfSource from "./four_half.wgsl" with { type: "text" };
import type { Elem } from "../../src/gpu/kernel.ts";

/** WGSL that declares `four`, `unpack` and `pack`, by element type. */
export const FOUR: Readonly<Record<Elem, string>> = { f32: f32Source, f16: f16Source };

/** {@linkcode FOUR} for f16, if the kernel also computes in f16. */
export const HALF_FOUR: string = halfSource;
