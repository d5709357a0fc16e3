/**
 * Chooses the build of ONNX Runtime for the CPU.
 *
 * @module
 */
import type { CpuRuntimeChoice } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { expandQuantized, makeConvolutionsPlanar } from "../../graph/rewrite/cpu_graph.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import { type GraphSession, loadNative, openSession, releaseNativeSessions } from "../ort/ort.ts";
import { copyWeights, mapWeights } from "../ort/pack_model.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import type { OpenSessionOptions } from "../backend.ts";

export interface CpuRuntime {
  readonly name: "native" | "web";
  /** Human-readable name. */
  readonly description: string;
  /** Threads for the backend's kernels. The native runtime uses as many for graphs. */
  readonly threads: number;
  openSession(model: Uint8Array, options?: OpenSessionOptions): Promise<GraphSession>;
  /** Opens a model: see {@linkcode Backend.openModel}. */
  openModel(
    model: ModelProto,
    files: ModelFiles,
    options?: OpenSessionOptions,
  ): Promise<GraphSession>;
  /** Frees everything that is still open. */
  dispose(): Promise<void>;
}

/** Options for opening a runtime. */
export interface CpuRuntimeOptions {
  /** The build to open; `auto` is native, or web if that does not load. */
  readonly choice: CpuRuntimeChoice;
  /** Threads that share the work of one operation; one per core if absent. */
  readonly threads?: number | undefined;
}

/** Opens a runtime. @throws {StartupError} when native is requested and does not load. */
export async function openCpuRuntime(
  { choice, threads: wanted }: CpuRuntimeOptions,
): Promise<CpuRuntime> {
  const threads = wanted ?? await countCores();
  if (choice === "web") return web(threads);
  try {
    await loadNative();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (choice === "native") {
      throw new StartupError(`onnxruntime-node cannot be loaded: ${reason}`, { cause: error });
    }
    log.warn("onnxruntime-node cannot be loaded: models run on onnxruntime-web, much slower", {
      reason,
    });
    return web(threads);
  }
  return native(threads);
}

function native(threads: number): CpuRuntime {
  const options = { runtime: "native", threads } as const;
  return {
    name: "native",
    description: `onnxruntime-node, ${threads} ${threads === 1 ? "thread" : "threads"}`,
    threads,
    openSession: (model, given) => openSession(model, { ...options, ...given }),
    openModel: async (model, files, given) => {
      // The fast image kernels are for x64 only.
      const own = Deno.build.arch === "x86_64" ? makeConvolutionsPlanar(model, { threads }) : model;
      const { bytes, weightsFolder } = await mapWeights(own, files);
      const session = await openSession(bytes, {
        ...options,
        ...given,
        weightsFolder,
      });
      try {
        await files.requireUnchanged?.();
      } catch (error) {
        await session.release();
        throw error;
      }
      return session;
    },
    dispose: releaseNativeSessions,
  };
}

function web(threads: number): CpuRuntime {
  return {
    name: "web",
    description: "onnxruntime-web",
    threads,
    openSession: (model) => openSession(model),
    openModel: async (model, files) => {
      const { bytes, externalData } = await copyWeights(expandQuantized(model), files);
      return await openSession(bytes, { externalData });
    },
    dispose: () => Promise.resolve(),
  };
}

/** Number of physical cores: threads that share a core count as one, if that is known. */
export async function countCores(): Promise<number> {
  const numThreads = navigator.hardwareConcurrency;
  if (Deno.build.os !== "linux") return numThreads;
  const siblings = await Promise.all(
    Array.from({ length: numThreads }, (_, thread) => readSiblings(thread)),
  );
  return siblings.includes(undefined) ? numThreads : new Set(siblings).size;
}

/** The threads that share a core with this one, such as `0,4`. */
async function readSiblings(thread: number): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(
      `/sys/devices/system/cpu/cpu${thread}/topology/thread_siblings_list`,
    );
  } catch {
    return undefined;
  }
}
