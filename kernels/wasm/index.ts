/** The CPU backend's kernels in WebAssembly SIMD, written in AssemblyScript and built by `deno task wasm`. */
export { causalConv } from "./causal_conv";
export { expertsProduct } from "./experts";
export { floatProduct } from "./products";
export { kvWrite, readKeys, readValues } from "./kv_cache";
export { linearAttention } from "./linear_attention";
export { packBlocks, packColumns, packRows } from "./pack";
export { packedAttention, pagedAttention } from "./attention";
export { product } from "./products";
export { quantizePair, quantizeRow, quantizeShorts } from "./pack";
export { blockBytes } from "./row_block";
export { normRow, pointwiseRow, rotateRow } from "./row_operations";
