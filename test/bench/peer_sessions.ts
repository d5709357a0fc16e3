/**
 * Where transformers.js's sessions open in the benchmarks: the device that Hearth runs on beside it.
 *
 * @module
 */
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { makeSessions, onWeb } from "../fixtures/engine/transformers_sessions.ts";

/** Opens models on a GPU, or on the CPU. */
export function peerSessions(device: GPUDevice | undefined): (path: string) => Promise<unknown> {
  return makeSessions(device === undefined ? new CpuBackend() : onWeb(device));
}
