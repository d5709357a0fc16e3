/**
 * The class of a device, for choosing weights. It is told without the backends: to import those, even on demand, is to
 * fetch their packages, and the server must answer before.
 *
 * @module
 */
import type { DeviceChoice } from "../base/config.ts";
import { findAdapter } from "../gpu/device.ts";
import type { Backend } from "./backend.ts";

export type DeviceClass = "gpuWithF16" | "gpu" | "cpu";

/** The class of an open device. */
export function toDeviceClass({ kind, hasF16 }: Pick<Backend, "kind" | "hasF16">): DeviceClass {
  if (kind === "cpu") return "cpu";
  return hasF16 ? "gpuWithF16" : "gpu";
}

/** The class of the device that `openBackend` would open for a choice; the CPU's if it would refuse. */
export async function classifyDevice(choice: DeviceChoice): Promise<DeviceClass> {
  if (choice === "cpu") return "cpu";
  const adapter = await findAdapter({ allowFallback: choice === "webgpu" });
  if (adapter === undefined) return "cpu";
  return adapter.features.has("shader-f16") ? "gpuWithF16" : "gpu";
}
