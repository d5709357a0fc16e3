// In JavaScript, since TypeScript does not yet know imports of a module's source.
// @ts-self-types="./attention_simd_module.d.ts"
import source module from "./attention_simd.wasm";

export { module };
