/**
 * The thread in which `doctor` tests a device. It alone imports ONNX Runtime, so that starting a server does not wait
 * for it.
 *
 * @module
 */
import "../../device/ort/no_location.ts";
import { CpuBackend } from "../../device/cpu/cpu.ts";
import { type BackendOptions, openBackend } from "../../device/open.ts";
import { configureLog } from "../../base/log.ts";
import { testBackend } from "./device.ts";

/** What worked or what did not, in words. */
export interface DeviceTestResult {
  readonly status: "ok" | "warning" | "failed";
  readonly text: string;
}

const scope = globalThis as unknown as {
  postMessage(result: DeviceTestResult): void;
  onmessage: ((event: MessageEvent<BackendOptions>) => void) | null;
};
configureLog({ level: "error", format: "text" });
scope.onmessage = async ({ data }) => scope.postMessage(await testDevice(data));

async function testDevice(options: BackendOptions): Promise<DeviceTestResult> {
  try {
    const backend = await openBackend(options);
    try {
      const text = await testBackend(backend);
      const isSlow = backend instanceof CpuBackend && options.cpuRuntime === "auto" &&
        backend.runtime === "web";
      if (!isSlow) return { status: "ok", text };
      return { status: "warning", text: `${text}; onnxruntime-node, much faster, does not load` };
    } finally {
      await backend.dispose();
    }
  } catch (error) {
    return { status: "failed", text: (error as Error).message };
  }
}
