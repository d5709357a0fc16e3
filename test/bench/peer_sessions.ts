/**
 * Opens transformers.js's sessions for the benchmarks, on the device that Hearth uses.
 *
 * @module
 */
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { makeSessions, onWeb } from "../fixtures/engine/transformers_sessions.ts";

/** Opens models on a GPU, or on the CPU. */
export function peerSessions(device: GPUDevice | undefined): (path: string) => Promise<unknown> {
  return makeSessions(device === undefined ? new CpuBackend() : onWeb(device));
}
