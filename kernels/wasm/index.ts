/** The CPU backend's kernels in WebAssembly SIMD, written in AssemblyScript and built by `deno task wasm`. */
export { causalConv } from "./causal_conv";
export { expertsProduct } from "./experts";
export { floatProduct } from "./float_product";
export { kvWrite, readKeys, readValues } from "./kv_cache";
export { linearAttention } from "./linear_attention";
export { packBlocks, packColumns, packRows } from "./pack";
export { packedAttention } from "./packed_attention";
export { pagedAttention } from "./paged_attention";
export { product } from "./product";
export { quantizePair, quantizeRow, quantizeShorts } from "./quantize";
export { blockBytes } from "./row_block";
export { normRow, pointwiseRow, rotateRow } from "./row_operations";
