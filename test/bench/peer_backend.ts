/**
 * Where transformers.js's sessions open in the benchmarks: the device that Hearth runs on beside it.
 *
 * @module
 */
import { CpuBackend } from "../../src/backend/cpu.ts";
import type { SessionOpener } from "../../src/onnx/runtime/hook.ts";
import { openSession } from "../../src/onnx/runtime/ort.ts";
import { copyWeights } from "../../src/onnx/runtime/pack_model.ts";

/** Opens sessions on a GPU, or on the CPU. */
export function peerBackend(device: GPUDevice | undefined): SessionOpener {
  if (device === undefined) return new CpuBackend();
  return {
    openSession: (model) => openSession(model, { device }),
    openModel: async (model, files) => {
      const { bytes, externalData } = await copyWeights(model, files);
      return await openSession(bytes, { device, externalData });
    },
  };
}
