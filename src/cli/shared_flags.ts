/**
 * Flags that several commands share.
 *
 * @module
 */
import { CPU_RUNTIMES, DTYPES, MODEL_KINDS } from "../base/config.ts";
import type { SettingNames } from "../base/errors.ts";
import { choice, type FlagTable, integer, text, toggle, UsageError } from "./command.ts";
import { isIP } from "node:net";

/** Flags of every command, which have no environment variables. */
export const COMMON_FLAGS = {
  help: toggle({ short: "h", help: "Print this help and exit." }),
  version: toggle({ help: "Print the version and exit." }),
} satisfies FlagTable;

/** Flags that choose a model's weights and device. */
export const WEIGHTS_FLAGS = {
  device: choice({
    values: ["auto", "webgpu", "cpu"],
    fallback: "auto",
    help: "Where the model runs. auto: WebGPU if there is a hardware adapter, else the CPU. " +
      "webgpu: WebGPU, even on a software adapter.",
  }),
  dtype: choice({
    values: DTYPES,
    help: "Data type of the weights to load. Default: the best that the model has for the device.",
  }),
  kind: choice({
    values: MODEL_KINDS,
    help: "What the model does. Default: detected from its folder.",
  }),
  offline: toggle({
    help: "Send no requests to the Hugging Face hub; only use its cache on this machine. " +
      "HF_HUB_OFFLINE=1 does the same.",
  }),
} satisfies FlagTable;

/** Flags for models that run on the CPU. */
export const CPU_FLAGS = {
  cpuRuntime: choice({
    values: CPU_RUNTIMES,
    fallback: "auto",
    help: "Build of ONNX Runtime that runs models on the CPU. native: " +
      "onnxruntime-node. web: onnxruntime-web, much slower. auto: native, or web if native does " +
      "not load.",
  }),
  cpuThreads: integer({
    placeholder: "<count>",
    min: 1,
    max: 64,
    help: "Threads that share the work of a model on the CPU, and threads that decode and encode " +
      "images (background removal). Default: one per physical core; for images one per logical core, " +
      "up to 4.",
  }),
} satisfies FlagTable;

/** Limits on the size of images and documents. */
export const IMAGE_FLAGS = {
  maxImageMegapixels: integer({
    placeholder: "<count>",
    min: 1,
    max: 256,
    fallback: 64,
    help:
      "Largest image that is decoded, in millions of pixels: each takes 3 or 4 bytes of memory. Pages of PDF files are rendered within this limit.",
  }),
  maxPdfPages: integer({
    placeholder: "<count>",
    min: 1,
    max: 10_000,
    fallback: 100,
    help: "Maximum number of pages of a PDF file; a longer one is refused.",
  }),
} satisfies FlagTable;

/** Flags for companion models and programs of speech recognition and synthesis. */
export const SPEECH_FLAGS = {
  vad: text({
    placeholder: "<folder>",
    help:
      "Folder of a voice activity model (Silero VAD in ONNX). Speech recognition then skips everything " +
      "but speech. Default: whole recordings are transcribed.",
  }),
  ffmpeg: text({
    placeholder: "<program>",
    help:
      "Path of the ffmpeg program, or ffmpeg for the installed one. It converts recordings that " +
      "Hearth cannot read (AMR, WMA, AC-3 and others). Default: such recordings are refused.",
  }),
  speakerEncoder: text({
    placeholder: "<folder>",
    help: "Folder of a speaker embedding model (x-vector, in ONNX). SpeechT5 needs it to clone " +
      "the voice of a recording. Default: only the voices in SpeechT5's folder.",
  }),
} satisfies FlagTable;

export function parseHost(item: string, source: string): string {
  const url = URL.parse(`http://${isIP(item) === 6 ? `[${item}]` : item}/`);
  if (item !== "" && url !== null && isIP(item) === 6) return url.hostname;
  if (item !== "" && url?.host === item.toLowerCase() && url.port === "") return url.hostname;
  throw new UsageError(
    `${source} wants a host name without scheme or port, such as hearth.example.org, got "${item}".`,
  );
}

export function parseProxy(item: string, source: string): string {
  const [address = "", bits, ...rest] = item.split("/");
  const version = isIP(address);
  const most = version === 6 ? 128 : 32;
  const isRange = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most);
  if (version !== 0 && isRange && rest.length === 0) return item;
  throw new UsageError(`${source} wants an address or a range such as 10.0.0.0/8, got "${item}".`);
}

export function parseOrigin(item: string, source: string): string {
  if (item === "*" || URL.parse(item)?.origin === item || isAppOrigin(item)) return item;
  throw new UsageError(
    `${source} wants an origin such as https://example.org, or *, got "${item}".`,
  );
}

/**
 * Whether an origin belongs to an application that shows pages of its own: `app://obsidian.md`, `chrome-extension://…`.
 */
function isAppOrigin(item: string): boolean {
  return /^[a-z][a-z\d+.-]*:\/\/[\w.-]+$/.test(item) && URL.parse(item)?.origin === "null";
}

/** The flags of the settings that errors of models refer to. */
export const SETTING_FLAGS: SettingNames = {
  device: "--device",
  dtype: "--dtype",
  kind: "--kind",
  kvCacheDtype: "--kv-cache-dtype",
  kvCacheMb: "--kv-cache-mb",
  maxBatchTokens: "--max-batch-tokens",
  maxModelLength: "--max-model-len",
  offline: "--offline, HF_HUB_OFFLINE",
  speakerEncoderFolder: "--speaker-encoder",
  vadFolder: "--vad",
};
