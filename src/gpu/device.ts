/**
 * Opens the GPU device of a process, with the limits and features that Hearth needs, and creates buffers on it.
 *
 * @module
 */
import { log } from "../base/log.ts";
import { Commands } from "./commands.ts";
import { keepDownloadBuffers, writeUploadBuffers } from "./ort_buffers.ts";
import { changeOrtShaders } from "./ort_shaders.ts";

/** Numbers of objects that Hearth has created on a device. Steady decode steps must not create any. */
interface CreationCounts {
  buffers: number;
  bindGroups: number;
  pipelines: number;
}

/** An open device and its properties. */
export interface GpuContext {
  readonly device: GPUDevice;
  readonly adapterInfo: GPUAdapterInfo;
  readonly limits: GPUSupportedLimits;
  readonly features: GPUSupportedFeatures;
  /** Whether shaders may use `f16`. */
  readonly hasF16: boolean;
  /** Whether this is a software adapter, which is correct but slower than the CPU backend. */
  readonly isFallbackAdapter: boolean;
  /** Resolves when the device is lost or destroyed. */
  readonly lost: Promise<GPUDeviceLostInfo>;
  /** Resolved with the reason when a kernel does not compile. */
  readonly uncompiled: PromiseWithResolvers<string>;
  readonly counts: CreationCounts;
  /** Commands that wait to be submitted. */
  readonly commands: Commands;
  /**
   * Functions that each compile a program which is not needed yet. They are called in order while no request is
   * waiting.
   */
  readonly later: (() => void)[];
}

/** The device is gone, and with it every buffer on it. */
export class DeviceLostError extends Error {
  override readonly name = "DeviceLostError";
}

/** Limits that ONNX Runtime's fused kernels and ours need above WebGPU's low defaults. */
const RAISED_LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxUniformBufferBindingSize",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
] as const satisfies readonly (keyof GPUSupportedLimits)[];

/** Largest binding. For Metal, naga passes the size of each binding to the shader, in 32 bits, to check indices. */
const MAX_BINDING_BYTES = 2 ** 32 - 4;

const WANTED_FEATURES = ["shader-f16", "timestamp-query"] as const;

/** The environment variable that names the graphics APIs that Deno may use. Deno reads it once for each thread. */
const APIS = "DENO_WEBGPU_BACKEND";

/**
 * Excludes OpenGL unless the variable is set. Without a Vulkan driver, Deno would use OpenGL, with which the kernels
 * are not tested, and which has no f16.
 */
function excludeOpenGl(): void {
  const apis = Deno.env.get(APIS);
  if (!apis) Deno.env.set(APIS, "vulkan,metal,dx12");
  else if (/\bgl\b/i.test(apis)) {
    log.warn(`${APIS} allows OpenGL: the kernels are not tested with it`);
  }
}

/**
 * Finds the fastest adapter of this machine with Vulkan, Metal or Direct3D 12, or with the graphics APIs in
 * `DENO_WEBGPU_BACKEND`.
 *
 * @returns `undefined` if there is none, or only a software one and `allowFallback` is false.
 */
export async function findAdapter(
  options: { allowFallback: boolean },
): Promise<GPUAdapter | undefined> {
  excludeOpenGl();
  // Absent if Deno was built without WebGPU.
  const gpu = navigator.gpu as GPU | undefined;
  const adapter = await gpu?.requestAdapter({ powerPreference: "high-performance" }) ?? undefined;
  if (adapter?.info.isFallbackAdapter && !options.allowFallback) return undefined;
  return adapter;
}

/**
 * Opens a device with the adapter's limits, and with `shader-f16` and `timestamp-query` where offered. The caller owns
 * it and ends it with `device.destroy()`.
 *
 * @param options.onError called with each error that no error scope catches (validation, out of memory).
 * @returns `undefined` under the conditions of {@linkcode findAdapter}.
 */
export async function openDevice(
  options: { allowFallback: boolean; onError?: (error: GPUError) => void },
): Promise<GpuContext | undefined> {
  const adapter = await findAdapter(options);
  if (adapter === undefined) return undefined;
  const requiredLimits: Record<string, number> = {};
  for (const name of RAISED_LIMITS) requiredLimits[name] = adapter.limits[name];
  requiredLimits["maxStorageBufferBindingSize"] = Math.min(
    adapter.limits.maxStorageBufferBindingSize,
    MAX_BINDING_BYTES,
  );
  const device = await adapter.requestDevice({
    requiredLimits,
    requiredFeatures: WANTED_FEATURES.filter((feature) => adapter.features.has(feature)),
  });
  if (options.onError !== undefined) {
    const { onError } = options;
    device.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      onError((event as GPUUncapturedErrorEvent).error);
    });
  }
  changeOrtShaders(device);
  keepDownloadBuffers(device);
  writeUploadBuffers(device);
  return {
    device,
    adapterInfo: adapter.info,
    limits: device.limits,
    features: device.features,
    hasF16: device.features.has("shader-f16"),
    isFallbackAdapter: adapter.info.isFallbackAdapter,
    lost: device.lost,
    uncompiled: Promise.withResolvers(),
    counts: { buffers: 0, bindGroups: 0, pipelines: 0 },
    commands: new Commands(device),
    later: [],
  };
}

/** Says what an error of the device means. Deno gives no message for an internal one. */
export function explainError(error: GPUError): string {
  if (error instanceof GPUOutOfMemoryError) {
    return "it has no memory left; close other programs, or use smaller weights or a smaller KV cache";
  }
  return error.message ||
    "an internal error of its driver, such as a shader that it cannot compile";
}

/** Creates a buffer and counts it. The caller owns it and ends it with `destroy()`. */
export function createBuffer(gpu: GpuContext, descriptor: GPUBufferDescriptor): GPUBuffer {
  gpu.counts.buffers++;
  return gpu.device.createBuffer(descriptor);
}

/** Creates a buffer that kernels read and write. Its size is rounded up to 16 bytes. The caller owns it. */
export function createStorage(gpu: GpuContext, label: string, numBytes: number): GPUBuffer {
  return createBuffer(gpu, {
    label,
    size: Math.max(1, Math.ceil(numBytes / 16)) * 16,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
}

/** Creates a storage buffer with content; see {@linkcode createStorage}. */
export function uploadStorage(
  gpu: GpuContext,
  label: string,
  data: Float32Array | Uint32Array,
): GPUBuffer {
  const buffer = createStorage(gpu, label, data.byteLength);
  gpu.device.queue.writeBuffer(buffer, 0, data as Float32Array<ArrayBuffer>);
  return buffer;
}

/** Words in the names of GPUs without memory of their own. `INTEL_CARD` excepts Intel's graphics cards. */
const INTEGRATED = /apple|intel|\b(0x)?8086\b|32902|adreno|mali|powervr|v3d|tegra|\bgb10\b/i;
const INTEGRATED_RADEON = /radeon.*\bgraphics\b|radeon(\(tm\))? \d{3,4}[ms]\b|amd custom gpu/i;
const INTEL_CARD = /\barc\b.*\b[ab]\d{2,3}m?\b|data center gpu/i;

/**
 * Whether a device uses the machine's memory. WebGPU does not say, so this goes by the adapter's name: software
 * adapters and integrated graphics do. `Radeon RX 7600` is a card, `Radeon(TM) 780M Graphics` is not; `Arc(TM) A770` is
 * a card, `Arc(TM) 140V` is not.
 */
export function usesMachineMemory(
  { adapterInfo, isFallbackAdapter }: {
    readonly adapterInfo: Pick<GPUAdapterInfo, "vendor" | "description">;
    readonly isFallbackAdapter: boolean;
  },
): boolean {
  const name = `${adapterInfo.vendor} ${adapterInfo.description}`;
  const isIntegrated = INTEGRATED.test(name) || INTEGRATED_RADEON.test(name);
  return isFallbackAdapter || isIntegrated && !INTEL_CARD.test(name);
}

/**
 * Resolves when the device has done all submitted work, and blocks the thread until then. Deno's `onSubmittedWorkDone`
 * would sleep 10 ms after that. Most calls of this function do not sleep: `createBuffer` returns a kept buffer that was
 * mapped before (see `keepDownloadBuffers`).
 *
 * @throws when the device is gone.
 */
export async function queueDone(device: GPUDevice): Promise<void> {
  const buffer = device.createBuffer({
    size: Uint32Array.BYTES_PER_ELEMENT,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
  });
  try {
    const encoder = device.createCommandEncoder();
    encoder.clearBuffer(buffer);
    device.queue.submit([encoder.finish()]);
    await buffer.mapAsync(GPUMapMode.READ);
  } finally {
    buffer.destroy();
  }
}
