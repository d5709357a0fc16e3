/**
 * Changes shaders of ONNX Runtime on their way to the device.
 *
 * @module
 */
import { fixConvVec3Source } from "./conv_vec3_fix.ts";
import { cellThreads, shareLstmCell } from "./lstm_cell_shader.ts";
import { unrollTiles } from "./unroll_loops.ts";

/** Changes every shader module that the device creates from now on. Call it before the first ORT session. */
export function changeOrtShaders(device: GPUDevice): void {
  const threads = cellThreads(device.limits);
  const createShaderModule = device.createShaderModule.bind(device);
  device.createShaderModule = (descriptor) => {
    const code = shareLstmCell(fixConvVec3Source(descriptor.code), threads);
    return createShaderModule({ ...descriptor, code: unrollTiles(code) });
  };
}
