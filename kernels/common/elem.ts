/**
 * WGSL to put before kernels that read and write single elements. It must come first.
 *
 * @module
 */
import f16Source from "./elem_f16.wgsl" with { type: "text" };
import f32Source from "./elem_f32.wgsl" with { type: "text" };
import type { Elem } from "../../src/gpu/kernel.ts";

/** WGSL that declares `elem`, by element type. */
export const ELEM: Readonly<Record<Elem, string>> = { f32: f32Source, f16: f16Source };
