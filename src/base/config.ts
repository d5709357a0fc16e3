/**
 * The program's version, and the settings of a running server after the command line and the environment were read.
 *
 * @module
 */
import manifest from "../../deno.json" with { type: "json" };

/** The version in deno.json. */
export const VERSION: string = manifest.version;

/** The command that runs this copy of Hearth, for messages that show a command. */
export const PROGRAM: string = Deno.build.standalone ? "hearth" : "deno run -A main.ts";

/** The process's environment, or a part of it. */
export type Environment = Readonly<Record<string, string>>;

/** The device that a model runs on. `auto` takes a hardware WebGPU adapter if there is one, or else the CPU. */
export type DeviceChoice = "auto" | "webgpu" | "cpu";

/** ONNX Runtime's builds for the CPU. `auto` takes the native one, or the web one if the native one does not load. */
export const CPU_RUNTIMES = ["auto", "native", "web"] as const;

export type CpuRuntimeChoice = typeof CPU_RUNTIMES[number];

/** Kinds of models. The kind of a model decides which endpoints it serves. */
export const MODEL_KINDS = [
  "text",
  "vision",
  "ocr",
  "asr",
  "tts",
  "matting",
  "embedding",
  "rerank",
] as const;

export type ModelKind = typeof MODEL_KINDS[number];

/** Weight formats, named as transformers.js names them. */
export const DTYPES = [
  ...["fp32", "fp16", "q4", "q4f16", "q2", "q2f16", "q1", "q1f16"] as const,
  ...["int8", "uint8", "q8", "bnb4"] as const,
] as const;

export type Dtype = typeof DTYPES[number];

/** If this is among a model's other names, the model answers to every name. */
export const ANY_NAME = "*";

/** A model as named on the command line, resolved to a folder on this machine. */
export interface ResolvedModel {
  /** The id that `GET /models` reports. */
  readonly id: string;
  /** Other names a request may use for it: kebab-case alias, owner/name. */
  readonly aliases: readonly string[];
  /** The `owned_by` that `GET /models` reports. */
  readonly ownedBy: string;
  /** Absolute path of the folder in hub layout. */
  readonly folder: string;
}

/** Names for the field of a chat completion that holds the model's reasoning. */
export const REASONING_FIELDS = ["reasoning_content", "reasoning"] as const;

export type ReasoningField = typeof REASONING_FIELDS[number];

export interface ApiKey {
  /** Its name in the log. */
  readonly label: string;
  readonly key: string;
}

/** Settings of any server: its address, whom it lets in, and how it ends. */
export interface ListenSettings {
  readonly host: string;
  readonly port: number;
  readonly allowRemoteShutdown: boolean;
  /** Host names served besides loopback names and the bound address. */
  readonly allowedHosts: readonly string[];
  /** Origins served besides the server's own; `*` allows all. */
  readonly corsOrigins: readonly string[];
  /** Accepted API keys; if empty, no key is required. */
  readonly apiKeys: readonly ApiKey[];
  /** Addresses and ranges of proxies whose X-Forwarded-For is trusted. */
  readonly trustedProxies: readonly string[];
  /** How long requests in flight may take to finish when the server stops. */
  readonly drainSeconds: number;
  /** Whether `GET /` answers with the web page. */
  readonly ui: boolean;
  /** Maximum number of open connections; less if the process may not open that many files. */
  readonly maxConnections: number;
}

/** How the HTTP side of a model's server behaves. */
export interface ServerSettings extends ListenSettings {
  /** Folder whose files requests from other machines may refer to; none if `undefined`. */
  readonly mediaDir: string | undefined;
  /** Whether media may come from private networks and from this machine, whoever asks. */
  readonly allowPrivateMedia: boolean;
  /** Maximum number of responses kept for `previous_response_id`. */
  readonly maxStoredResponses: number;
  /** Maximum number of bytes that these responses may take together. */
  readonly storedResponsesBytes: number;
  /** Field of a chat completion that holds the reasoning. */
  readonly reasoningField: ReasoningField;
}

/** Formats of the cached keys and values: the data type that the device computes with, or 8 bits. */
export const KV_CACHE_DTYPES = ["auto", "q8"] as const;

export type KvCacheDtype = typeof KV_CACHE_DTYPES[number];

/** Settings of the model's engine and of the decoders of media. Sizes that are absent are chosen to fit the device. */
export interface EngineSettings {
  /** Maximum device memory for keys and values, in MiB. */
  readonly kvCacheMb?: number | undefined;
  /** Format of the cached keys and values; `auto` if absent. */
  readonly kvCacheDtype?: KvCacheDtype | undefined;
  /** Maximum number of tokens of prompt and completion in one sequence. */
  readonly maxModelLength?: number | undefined;
  /** Maximum number of tokens in one step. */
  readonly maxBatchTokens?: number | undefined;
  /** Maximum number of sequences in one step. */
  readonly maxSequences?: number | undefined;
  /** Number of threads that share the work of a model on the CPU, or that decode and encode images. */
  readonly cpuThreads?: number | undefined;
  /** Whether requests share the keys and values of equal prefixes. */
  readonly prefixCache: boolean;
  /**
   * Whether each row of a step gives the same bits whatever other rows are in the step. If absent, only where that
   * costs nothing.
   */
  readonly batchInvariant?: boolean | undefined;
  /** Largest image that is decoded, in pixels; the decoder's own limit if absent. */
  readonly maxImagePixels?: number | undefined;
  /** Maximum number of pages of a PDF file; 100 if absent. */
  readonly maxPdfPages?: number | undefined;
  /** Path or name of the ffmpeg that converts recordings whose format Hearth cannot read; none if absent. */
  readonly ffmpeg?: string | undefined;
}

/** How requests wait. */
export interface AdmissionSettings {
  /** Requests that may wait beyond those running. */
  readonly maxQueue: number;
}

/**
 * The environment variable that tells `serve` that a router started it. The router keeps the process's standard input
 * open. The process stops when its standard input is closed, which also happens if the router is killed.
 */
export const ROUTER_VARIABLE = "HEARTH_UNDER_ROUTER";

/** Log levels in rising order of severity. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

export type LogLevel = typeof LOG_LEVELS[number];

/** `text`: one readable line; `json`: one object per line. */
export const LOG_FORMATS = ["text", "json"] as const;

export type LogFormat = typeof LOG_FORMATS[number];

/** How log lines look and which are written. */
export interface LogSettings {
  readonly level: LogLevel;
  readonly format: LogFormat;
}
