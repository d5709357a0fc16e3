/** The CPU backend's kernels in WebAssembly SIMD, written in AssemblyScript and built by `deno task wasm`. */
export { expertsProduct } from "./experts";
export { causalConv } from "./causal_conv";
export { floatProduct } from "./float_product";
export { kvWrite } from "./kv_write";
export { linearAttention } from "./linear_attention";
export { packBlocks } from "./pack_blocks";
export { packColumns, packRows } from "./pack_floats";
export { packedAttention } from "./packed_attention";
export { pagedAttention } from "./paged_attention";
export { pointwiseRow } from "./pointwise";
export { product } from "./product";
export { quantizePair, quantizeRow } from "./quantize";
export { quantizeShorts } from "./quantize_shorts";
export { readKeys, readValues } from "./read_keys";
export { rotateRow } from "./rotate";
export { blockBytes } from "./row_block";
export { normRow } from "./row_norm";
