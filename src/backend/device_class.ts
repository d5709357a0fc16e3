/**
 * What the device of a model will be able to do, before it is opened.
 *
 * @module
 */
import type { DeviceChoice } from "../config.ts";
import { findAdapter } from "../gpu/device.ts";

/** As far as the choice of weights goes. */
export type DeviceClass = "gpuWithF16" | "gpu" | "cpu";

/** The device that `openBackend` would take for a choice; the CPU where it would refuse. */
export async function classifyDevice(choice: DeviceChoice): Promise<DeviceClass> {
  if (choice === "cpu") return "cpu";
  const adapter = await findAdapter({ allowFallback: choice === "webgpu" });
  if (adapter === undefined) return "cpu";
  return adapter.features.has("shader-f16") ? "gpuWithF16" : "gpu";
}
