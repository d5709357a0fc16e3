/**
 * The WebGPU adapters of this machine, and which of them a server would take.
 *
 * @module
 */
import { findAdapter } from "../../gpu/device.ts";
import type { Check } from "./checks.ts";

/** What is reported of an adapter. */
export interface AdapterReport {
  readonly name: string;
  readonly isSoftware: boolean;
  readonly features: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
  /** Whether `--device auto` would take it. */
  readonly isTaken: boolean;
}

/** The limits that decide whether a model fits, and which kernels run. */
const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupsPerDimension",
] as const satisfies readonly (keyof GPUSupportedLimits)[];

/** All adapters that WebGPU offers: high-performance, low-power and software. */
export async function findAdapters(): Promise<AdapterReport[]> {
  const gpu = navigator.gpu as GPU | undefined;
  const taken = formatName(await findAdapter({ allowFallback: false }));
  const reports = new Map<string, AdapterReport>();
  const requests: GPURequestAdapterOptions[] = [
    { powerPreference: "high-performance" },
    { powerPreference: "low-power" },
    { forceFallbackAdapter: true },
  ];
  for (const request of requests) {
    const adapter = await gpu?.requestAdapter(request);
    const name = formatName(adapter);
    if (!adapter || name === undefined || reports.has(name)) continue;
    reports.set(name, {
      name,
      isSoftware: adapter.info.isFallbackAdapter,
      features: [...adapter.features].sort(),
      limits: Object.fromEntries(LIMITS.map((limit) => [limit, adapter.limits[limit]])),
      isTaken: name === taken,
    });
  }
  return [...reports.values()];
}

function formatName(adapter: GPUAdapter | null | undefined): string | undefined {
  if (!adapter) return undefined;
  return adapter.info.description || adapter.info.vendor || "unnamed adapter";
}

/** Which device `--device auto` would take, and why. */
export function chooseDevice(adapters: readonly AdapterReport[]): Check {
  const name = "device";
  const taken = adapters.find(({ isTaken }) => isTaken);
  if (taken !== undefined) {
    const f16 = taken.features.includes("shader-f16") ? "with f16" : "without f16";
    return { name, status: "ok", text: `WebGPU on ${taken.name}, ${f16}: the fastest adapter` };
  }
  if (adapters.length > 0) {
    return {
      name,
      status: "ok",
      text: "the CPU: there is only a software adapter, which is slower; --device webgpu takes it",
    };
  }
  const driver = Deno.build.os === "linux" ? "; a GPU needs its Vulkan driver and libvulkan1" : "";
  return { name, status: "ok", text: `the CPU: WebGPU finds no adapter${driver}` };
}
