/**
 * What `doctor` checks besides devices: the runtime, the cache, the hub.
 *
 * @module
 */
import manifest from "../../../deno.json" with { type: "json" };
import { formatBytes } from "../../base/format_bytes.ts";
import { canTakeRangeEarly } from "../../gpu/early_range.ts";
import { askHub } from "../../hub/answer.ts";
import { measureFolder } from "../../hub/cache_scan.ts";
import { listCachedIds } from "../../hub/cache.ts";
import { readFreeBytes } from "../../hub/download.ts";
import { readHubSettings } from "../../hub/settings.ts";
import { readAvailableBytes, shareMemory } from "../../models/folder/free_memory.ts";

/** The result of one check. */
export interface Check {
  readonly name: string;
  /** `failed`: models cannot be served so. */
  readonly status: "ok" | "warning" | "failed";
  readonly text: string;
}

const PACKAGES = [
  "onnxruntime-node",
  "onnxruntime-web",
  "@huggingface/transformers",
];
const HUB_TIMEOUT_MS = 5_000;

/** Versions, and whether the fast read-back was verified on this version of Deno. */
export function checkRuntime(): Check {
  const imports: Readonly<Record<string, string>> = manifest.imports;
  const packages = PACKAGES.map((name) => `${name} ${imports[name]?.replace(/^npm:.+@/, "")}`);
  const { deno, v8 } = Deno.version;
  const { os, arch } = Deno.build;
  const text = `Deno ${deno}, V8 ${v8}, ${packages.join(", ")}, ${os} ${arch}`;
  if (canTakeRangeEarly()) return { name: "runtime", status: "ok", text };
  return {
    name: "runtime",
    status: "warning",
    text: `${text}; not a Deno on which fast read-back from the GPU was verified: slower tokens`,
  };
}

/** The memory that models can take. */
export async function checkMemory(): Promise<Check> {
  const name = "memory";
  const available = await readAvailableBytes();
  if (available === undefined) {
    return { name, status: "warning", text: "the system does not say how much is free" };
  }
  const { cacheBytes } = shareMemory({ weightsBytes: 0, activationBytes: 0 }, available);
  return {
    name,
    status: "ok",
    text: `${formatBytes(available)} are free; keys and values of a model on the CPU take up to ` +
      `${
        Math.round(100 * cacheBytes / available)
      } % of what its weights leave, unless --kv-cache-mb says how much`,
  };
}

/** Whether the cache can be written, and what it holds. */
export async function checkCache(): Promise<Check> {
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

/** Whether models can be downloaded. */
export async function checkHub(): Promise<Check> {
  const name = "hub";
  const settings = readHubSettings();
  const { endpoint, token, isOffline } = settings;
  if (isOffline) {
    return { name, status: "ok", text: `${endpoint} is not asked: HF_HUB_OFFLINE is set` };
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
      ? `${endpoint} does not answer within ${HUB_TIMEOUT_MS / 1000} s`
      : message;
    return {
      name,
      status: "warning",
      text: `${text} (models in the cache are served all the same)`,
    };
  }
  const login = token === undefined ? "without a token" : "and takes the token";
  return { name, status: "ok", text: `${endpoint} answers, ${login}` };
}
