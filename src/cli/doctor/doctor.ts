/**
 * `doctor`: checks whether this machine and this copy of Hearth can serve models.
 *
 * @module
 */
import type { BackendOptions } from "../../device/open.ts";
import { configureLog } from "../../base/log.ts";
import { VERSION } from "../../base/version.ts";
import { type AdapterReport, chooseDevice, findAdapters } from "./adapters.ts";
import { type Check, checkCache, checkHub, checkMemory, checkRuntime } from "./checks.ts";
import type { DeviceTestResult } from "./thread.ts";
import { printLine } from "../print.ts";
import { quietenVulkan } from "../quieten_vulkan.ts";
import { formatTable } from "../table.ts";

const MARKS = { ok: "ok", warning: "warning", failed: "FAILED" } as const;

/**
 * Prints what was found.
 *
 * @returns 0 when models can be served; what only downloads need counts as a warning.
 */
export async function doctor({ json }: { readonly json: boolean }): Promise<number> {
  configureLog({ level: "error", format: "text" });
  quietenVulkan();
  const adapters = await findAdapters();
  const checks: Check[] = [
    checkRuntime(),
    chooseDevice(adapters),
    // On a machine with a GPU the check must not download the native runtime.
    await testDevice({ device: "cpu", cpuRuntime: adapters.some(isTaken) ? "web" : "auto" }),
    ...(adapters.length > 0 ? [await testDevice({ device: "webgpu" })] : []),
    await checkMemory(),
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

/** Its thread is not terminated: the driver crashes if the process exits while a thread that used the GPU is ending. */
async function testDevice(options: BackendOptions): Promise<Check> {
  const name = `self-test on ${options.device}`;
  const worker = new Worker(new URL("./thread.ts", import.meta.url), { type: "module" });
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
