/**
 * The thread in which `doctor` tests a device: only here are ONNX Runtime and its packages imported, so that starting
 * a server waits for none of them.
 *
 * @module
 */
import "../onnx/no_location.ts";
import { openBackend } from "../backend/open.ts";
import type { DeviceChoice } from "../config.ts";
import { configureLog } from "../log.ts";
import { testBackend } from "./doctor_device.ts";

/** What worked, for people, or what did not. */
export interface DeviceTestResult {
  readonly works: boolean;
  readonly text: string;
}

const scope = globalThis as unknown as {
  postMessage(result: DeviceTestResult): void;
  onmessage: ((event: MessageEvent<DeviceChoice>) => void) | null;
};
configureLog({ level: "error", format: "text" });
scope.onmessage = async ({ data }) => scope.postMessage(await testDevice(data));

async function testDevice(choice: DeviceChoice): Promise<DeviceTestResult> {
  try {
    const backend = await openBackend(choice);
    try {
      return { works: true, text: await testBackend(backend) };
    } finally {
      backend.dispose();
    }
  } catch (error) {
    return { works: false, text: (error as Error).message };
  }
}
