/**
 * Chooses and opens the backend.
 *
 * @module
 */
import type { DeviceChoice } from "../config.ts";
import { StartupError } from "../errors.ts";
import { openDevice } from "../gpu/device.ts";
import type { Backend } from "./backend.ts";
import { CpuBackend } from "./cpu.ts";
import { WebGpuBackend } from "./webgpu.ts";

/**
 * Opens the backend for a device choice. `auto` passes over software adapters: the CPU backend is faster than those.
 *
 * @throws {StartupError} when WebGPU is forced and there is no adapter.
 */
export async function openBackend(choice: DeviceChoice): Promise<Backend> {
  if (choice === "cpu") return new CpuBackend();
  // After an error nobody waited for (no memory left, work that was refused) results cannot be trusted.
  const failure = Promise.withResolvers<string>();
  const gpu = await openDevice({
    allowFallback: choice === "webgpu",
    onError: ({ message }) => failure.resolve(`the GPU reported an error: ${message}`),
  });
  if (gpu) return await WebGpuBackend.create(gpu, { failure: failure.promise });
  if (choice === "auto") return new CpuBackend();
  throw new StartupError(
    "No WebGPU adapter was found, and --device webgpu asks for one. On Linux it needs a Vulkan driver " +
      "(Debian: apt-get install libvulkan1 and your GPU's driver, or mesa-vulkan-drivers for a software one); " +
      "--device cpu runs without.",
  );
}
