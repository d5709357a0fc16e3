/**
 * Fixes a shader of ONNX Runtime 1.30 that silently gives wrong results.
 *
 * For Conv with a kernel above 1 and input channels that divide by 3 but not by 4, ORT's Conv2dMM loads
 * three channels at once, yet computes the index of the first as `xCh / 4`, as if it still counted in vec4.
 * Reported upstream as microsoft/onnxruntime#29651.
 *
 * @module
 */

/** The shader's source with the index fixed; any other shader unchanged. */
export function fixConvVec3Source(code: string): string {
  const isVec3Conv = code.includes("fn mm_readA") && code.includes("-> vec3<x_element_t>");
  return isVec3Conv ? code.replaceAll("xCh / 4", "xCh") : code;
}
