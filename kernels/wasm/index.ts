/** The CPU backend's attention in WebAssembly SIMD; AssemblyScript, built by `deno task wasm`. */
export { kvWrite } from "./kv_write";
export { packedAttention } from "./packed_attention";
export { pagedAttention } from "./paged_attention";
export { blockBytes } from "./row_block";
