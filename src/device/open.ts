/**
 * Chooses and opens the backend.
 *
 * @module
 */
import type { CpuRuntimeChoice, DeviceChoice } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { Backend } from "./backend.ts";
import type { GpuContext } from "../gpu/device.ts";
import type { CpuRuntimeOptions } from "./cpu/runtime.ts";

/** Options for choosing and opening a backend. */
export interface BackendOptions {
  readonly device: DeviceChoice;
  readonly cpuRuntime?: CpuRuntimeChoice | undefined;
  /** Threads of the CPU's runtime; one per core if absent. */
  readonly cpuThreads?: number | undefined;
}

/**
 * Opens the backend for a device choice. `auto` skips software adapters, because the CPU backend is faster, and a GPU
 * that cannot be opened.
 *
 * @throws {StartupError} when WebGPU is requested and there is no adapter or it cannot be opened, or a requested CPU
 * runtime does not load.
 */
export async function openBackend(
  { device: choice, cpuRuntime = "auto", cpuThreads: threads }: BackendOptions,
): Promise<Backend> {
  const cpu = { choice: cpuRuntime, threads };
  if (choice === "cpu") return await openCpu(cpu);
  const { explainError, openDevice } = await import("../gpu/device.ts");
  // After an uncaptured error (out of memory, validation), results cannot be trusted.
  const failure = Promise.withResolvers<string>();
  let gpu: GpuContext | undefined;
  try {
    gpu = await openDevice({
      allowFallback: choice === "webgpu",
      onError: (error) => failure.resolve(`the GPU reported an error: ${explainError(error)}`),
    });
  } catch (cause) {
    const reason = `the GPU cannot be opened: ${(cause as Error).message}`;
    if (choice === "webgpu") throw new StartupError(reason, { cause, setting: "device" });
    log.warn(`the model runs on the CPU: ${reason}`);
    return await openCpu(cpu);
  }
  if (gpu) {
    const { WebGpuBackend } = await import("./webgpu/webgpu.ts");
    return await WebGpuBackend.create(gpu, { failure: failure.promise });
  }
  if (choice === "auto") {
    const driver = Deno.build.os === "linux" ? "; a GPU needs its Vulkan driver" : "";
    log.info(`the model runs on the CPU: WebGPU finds no hardware adapter${driver}`);
    return await openCpu(cpu);
  }
  throw new StartupError(
    "WebGPU was requested, but no adapter was found. On Linux it needs a Vulkan driver; OpenGL is not used (Debian: " +
      "apt-get install libvulkan1 and your GPU's driver, or mesa-vulkan-drivers for a software one). The CPU needs none.",
    { setting: "device" },
  );
}

/** Both backends are imported on demand: each is a third of the worker's modules. */
async function openCpu(options: CpuRuntimeOptions): Promise<Backend> {
  return await (await import("./cpu/cpu.ts")).CpuBackend.open(options);
}
