/**
 * A thread that packs weights into memory shared with the thread that started it, and then ends. If it fails, it posts
 * a message.
 *
 * @module
 */
import { parentPort, workerData } from "node:worker_threads";
import { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { SimdRows } from "../../../kernels/cpu/row_simd.ts";
import { FolderFiles } from "../../graph/file/external_data.ts";
import { type PackJob, packMatrices } from "./memory_plan.ts";

const { folder, root, memory, matrices } = workerData as PackJob;
try {
  await using files = new FolderFiles(folder, root);
  await packMatrices(new SimdRows(new KernelThreads(1), memory), matrices, files);
} catch (error) {
  parentPort!.postMessage(error instanceof Error ? error.message : String(error));
}
