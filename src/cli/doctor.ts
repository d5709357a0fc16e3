/**
 * `doctor`: checks whether this machine and this copy of Hearth can serve models.
 *
 * @module
 */
import type { BackendOptions } from "../device/open.ts";
import { configureLog } from "../base/log.ts";
import { VERSION } from "../base/config.ts";
import type { DeviceTestResult } from "./doctor_thread.ts";
import { quietenVulkan } from "./loading.ts";
import { formatTable, printLine } from "./print.ts";
import { findAdapter } from "../gpu/device.ts";
import manifest from "../../deno.json" with { type: "json" };
import { formatBytes } from "../base/bytes.ts";
import { canTakeRangeEarly } from "../gpu/ort_buffers.ts";
import { askHub } from "../hub/hub_request.ts";
import { listCachedIds, measureFolder, readHubSettings } from "../hub/cache.ts";
import { readFreeBytes } from "../hub/download.ts";
import { readAvailableBytes } from "../base/memory_limit.ts";
import { shareMemory } from "../models/folder/memory.ts";

const MARKS = { ok: "ok", warning: "warning", failed: "FAILED" } as const;

/** Prints the results. @returns 0 when models can be served; problems that only affect downloads count as warnings. */
export async function doctor({ json }: { readonly json: boolean }): Promise<number> {
  configureLog({ level: "error", format: "text" });
  quietenVulkan();
  const adapters = await findAdapters();
  const checks: Check[] = [
    checkRuntime(),
    reportDevice(adapters),
    // If there is a GPU, checking the CPU must not download the native runtime.
    await testDevice({ device: "cpu", cpuRuntime: adapters.some(isTaken) ? "web" : "auto" }),
    ...(adapters.length > 0 ? [await testDevice({ device: "webgpu" })] : []),
    checkMemory(),
    await checkCache(),
    await checkHub(),
  ];
  const isHealthy = checks.every(({ status }) => status !== "failed");
  if (json) {
    printLine(JSON.stringify({ isHealthy, version: VERSION, checks, adapters }, undefined, 2));
  } else printReport({ checks, adapters, isHealthy });
  return isHealthy ? 0 : 1;
}

function isTaken({ isTaken }: AdapterReport): boolean {
  return isTaken;
}

/**
 * Tests a device. The test's thread is not terminated, because the driver crashes if the process exits while a thread
 * that used the GPU is ending.
 */
async function testDevice(options: BackendOptions): Promise<Check> {
  const name = `self-test on ${options.device}`;
  const worker = new Worker(new URL("./doctor_thread.ts", import.meta.url), { type: "module" });
  const { status, text } = await new Promise<DeviceTestResult>((resolve) => {
    worker.onmessage = ({ data }: MessageEvent<DeviceTestResult>) => resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      resolve({ status: "failed", text: event.message });
    };
    worker.postMessage(options);
  });
  if (status !== "failed") return { name, status, text };
  const advice = options.device === "webgpu"
    ? " Update the GPU's driver, or serve with --device cpu."
    : "";
  return { name, status, text: `${text}${advice}` };
}

function printReport(
  { checks, adapters, isHealthy }: {
    checks: readonly Check[];
    adapters: readonly AdapterReport[];
    isHealthy: boolean;
  },
): void {
  printLine(`Hearth ${VERSION}`);
  const rows = checks.map(({ name, status, text }) => [`  ${MARKS[status]}`, name, text]);
  for (const line of formatTable(rows)) printLine(line);
  for (const { name, isSoftware, features, limits } of adapters) {
    printLine(`\nadapter ${name}${isSoftware ? " (software)" : ""}`);
    for (const [limit, value] of Object.entries(limits)) printLine(`  ${limit.padEnd(36)}${value}`);
    printLine(`  features: ${features.join(", ")}`);
  }
  printLine(`\n${isHealthy ? "Healthy." : "Not healthy: see FAILED above."}`);
}

interface AdapterReport {
  readonly name: string;
  readonly isSoftware: boolean;
  readonly features: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
  /** Whether `--device auto` would use it. */
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

/** Finds all adapters that WebGPU offers: high-performance, low-power and software. */
async function findAdapters(): Promise<AdapterReport[]> {
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

/** Reports which device `--device auto` would use, and why. */
function reportDevice(adapters: readonly AdapterReport[]): Check {
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
      text:
        "the CPU: there is only a software adapter, which is slower; use it with --device webgpu",
    };
  }
  const driver = Deno.build.os === "linux"
    ? "; a GPU needs its Vulkan driver and libvulkan1 (OpenGL is not used)"
    : "";
  return { name, status: "ok", text: `the CPU: WebGPU finds no adapter${driver}` };
}

export interface Check {
  readonly name: string;
  /** `failed` means that models cannot be served. */
  readonly status: "ok" | "warning" | "failed";
  readonly text: string;
}

const PACKAGES = [
  "onnxruntime-node",
  "onnxruntime-web",
  "@huggingface/transformers",
];
const HUB_TIMEOUT_MS = 5_000;

/** Reports the versions, and checks whether fast read-back was verified on this version of Deno. */
function checkRuntime(): Check {
  const imports: Readonly<Record<string, string>> = manifest.imports;
  const packages = PACKAGES.map((name) => `${name} ${imports[name]?.replace(/^npm:.+@/, "")}`);
  const { deno, v8 } = Deno.version;
  const { os, arch } = Deno.build;
  const text = `Deno ${deno}, V8 ${v8}, ${packages.join(", ")}, ${os} ${arch}`;
  if (canTakeRangeEarly()) return { name: "runtime", status: "ok", text };
  return {
    name: "runtime",
    status: "warning",
    text:
      `${text}; fast read-back from the GPU was not verified on this Deno, so tokens are slower`,
  };
}

/** Checks the memory that models can use. */
function checkMemory(): Check {
  const name = "memory";
  const available = readAvailableBytes();
  if (available === undefined) {
    return { name, status: "warning", text: "the system does not report how much memory is free" };
  }
  const { cacheBytes } = shareMemory({ weightsBytes: 0, activationBytes: 0 }, available);
  return {
    name,
    status: "ok",
    text: `${formatBytes(available)} free; keys and values of a model on the CPU take up to ` +
      `${
        Math.round(100 * cacheBytes / available)
      } % of what its weights leave, unless --kv-cache-mb says how much`,
  };
}

/** Checks whether the cache can be written, and reports how much it holds. */
async function checkCache(): Promise<Check> {
  const name = "cache";
  const { cacheFolder } = readHubSettings();
  try {
    await Deno.mkdir(cacheFolder, { recursive: true });
    await Deno.remove(await Deno.makeTempFile({ dir: cacheFolder, prefix: ".hearth-doctor-" }));
  } catch (error) {
    const reason = (error as Error).message;
    return {
      name,
      status: "failed",
      text: `${cacheFolder} cannot be written: ${reason}. Set HF_HOME.`,
    };
  }
  const numModels = (await listCachedIds(cacheFolder)).length;
  const models = numModels === 1 ? "1 model" : `${numModels} models`;
  const size = formatBytes(await measureFolder(cacheFolder));
  const freeBytes = await readFreeBytes(cacheFolder);
  const free = freeBytes === undefined ? "" : `, ${formatBytes(freeBytes)} free`;
  return { name, status: "ok", text: `${cacheFolder}: ${models}, ${size}${free}` };
}

/** Checks whether models can be downloaded. */
async function checkHub(): Promise<Check> {
  const name = "hub";
  const settings = readHubSettings();
  const { endpoint, token, isOffline } = settings;
  if (isOffline) {
    return { name, status: "ok", text: `${endpoint} is not contacted: HF_HUB_OFFLINE is set` };
  }
  try {
    const response = await askHub(settings, {
      url: `${endpoint}/api/models?limit=1`,
      subject: "a list of models",
      signal: AbortSignal.timeout(HUB_TIMEOUT_MS),
    });
    await response.body?.cancel();
  } catch (error) {
    const { name: kind, message } = error as Error;
    const text = kind === "TimeoutError"
      ? `${endpoint} did not answer within ${HUB_TIMEOUT_MS / 1000} s`
      : message;
    return {
      name,
      status: "warning",
      text: `${text} (cached models can still be served)`,
    };
  }
  const login = token === undefined ? "without a token" : "and accepts the token";
  return { name, status: "ok", text: `${endpoint} answers, ${login}` };
}
