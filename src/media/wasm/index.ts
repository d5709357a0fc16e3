/** Per-pixel kernels in WebAssembly SIMD; AssemblyScript, built by `deno task wasm`. */
export { dropAlpha, isOpaque } from "./alpha";
export { compositeRgb, compositeRgba, mixRows } from "./composite";
export { filterRows, sumBytes } from "./png_filter";
export { unfilterRow } from "./png_unfilter";
export { addRows, clipRow, shrinkRows } from "./resample";
