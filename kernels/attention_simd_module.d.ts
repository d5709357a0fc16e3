/** The compiled kernels of `wasm/`; built by `attention_simd_build.ts`. */
export const module: WebAssembly.Module;
