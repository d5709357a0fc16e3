/** Per-pixel kernels in WebAssembly SIMD; AssemblyScript, built by `deno task wasm`. */
export { dropAlpha, isOpaque, compositeRgb, compositeRgba, mixRows } from "./alpha";
export { filterRows, sumBytes, unfilterRow } from "./png";
export { addRows, clipRow, shrinkRows } from "./resample";
