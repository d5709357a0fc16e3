/**
 * All flags of all commands: range, default and help text. These tables parse the command line and the environment,
 * print `--help`, and fill the tables of docs/flags.md.
 *
 * @module
 */
import { KV_CACHE_DTYPES, LOG_FORMATS, LOG_LEVELS, REASONING_FIELDS } from "../base/config.ts";
import {
  choice,
  type FlagTable,
  integer,
  list,
  number,
  text,
  texts,
  toggle,
  UsageError,
} from "./command.ts";
import {
  CPU_FLAGS,
  IMAGE_FLAGS,
  parseHost,
  parseOrigin,
  parseProxy,
  SPEECH_FLAGS,
  WEIGHTS_FLAGS,
} from "./shared_flags.ts";

export const SERVE_FLAGS = {
  model: text({
    short: "m",
    placeholder: "<model>",
    help:
      "Model to serve: a folder, a catalogue alias (qwen3-0.6b), or owner/name[@revision] on the " +
      "Hugging Face hub. Default: the built-in hearth-demo-chat, whose context of 2,048 " +
      "tokens is too short for agents. For tools use qwen3-0.6b or, better, a larger one such as qwen3-4b.",
  }),
  modelAlias: list({
    placeholder: "<name>",
    parseItem: (name, source) => {
      if (name === "") throw new UsageError(`${source} has an empty name.`);
      return name;
    },
    help: "Another name that requests may use for the model, for clients with a fixed name: " +
      "tts-1, whisper-1, text-embedding-3-small.",
  }),
  anyModel: toggle({
    help: "Accept every model name. Without it, requests with an unknown name get a 404.",
  }),
  address: text({
    short: "a",
    placeholder: "<address>",
    fallback: "127.0.0.1",
    help: "Address to listen on. Any address but loopback lets other machines in: see --api-key.",
  }),
  port: integer({
    short: "p",
    placeholder: "<port>",
    min: 0,
    max: 65535,
    fallback: 10100,
    help: "Port to listen on; 0 chooses a free one.",
  }),
  allowRemoteShutdown: toggle({
    help: "Accept POST /shutdown from other machines too. Only for a secured network.",
  }),
  ...WEIGHTS_FLAGS,
  ...CPU_FLAGS,
  ...SPEECH_FLAGS,
  maxQueue: integer({
    placeholder: "<count>",
    min: 0,
    max: 1_000_000,
    fallback: 512,
    help: "Requests that may wait while the model works on others; further ones get a 429.",
  }),
  workerTimeout: integer({
    placeholder: "<seconds>",
    min: 1,
    max: 86_400,
    fallback: 30,
    help:
      "Time that the model's thread may be unresponsive. After that, the thread is replaced, and its " +
      "requests end with a 503. One step of the model, or one stage of loading, may take twenty times as long.",
  }),
  drainSeconds: integer({
    placeholder: "<seconds>",
    min: 0,
    max: 3600,
    fallback: 1,
    help:
      "Time for requests in progress to finish when the server is asked to stop. With more than 1, " +
      "new requests get a 503 during that time, so that a proxy sends them elsewhere.",
  }),
  maxConnections: integer({
    placeholder: "<count>",
    min: 1,
    max: 1_000_000,
    fallback: 4096,
    help:
      "Maximum number of open connections. Beyond that, idle connections are closed; if none is idle, new " +
      "connections are refused. The limit is lower if the process may not open that many files (ulimit -n).",
  }),
  bodyMemoryMb: integer({
    placeholder: "<MiB>",
    min: 1,
    max: 1_048_576,
    help: "Maximum memory for the bodies of all requests together; further requests get a 429. " +
      "Default: an eighth of the memory of the machine or container, from 128 to 1024.",
  }),
  kvCacheMb: integer({
    placeholder: "<MiB>",
    min: 1,
    max: 1_048_576,
    help:
      "Maximum device memory for keys and values, which is allocated as requests need it. Default: what the " +
      "device offers; on the CPU, and on a GPU without memory of its own, 60 % of the free memory.",
  }),
  kvCacheDtype: choice({
    values: KV_CACHE_DTYPES,
    fallback: "auto",
    help:
      "Data type of cached keys and values. auto: the type that the device computes with, which has 16 or 32 " +
      "bits. q8: 8 bits with a scale for each token and head, about half the memory of 16 bits.",
  }),
  maxModelLen: integer({
    placeholder: "<tokens>",
    min: 2,
    max: 16_777_216,
    help:
      "Maximum number of tokens of prompt and answer together. Default: the context that the model was " +
      "trained for, or less if the memory for keys and values cannot hold it.",
  }),
  maxBatchTokens: integer({
    placeholder: "<count>",
    min: 1,
    // A GPU starts at most 65,535 workgroups along a dimension. Some kernels need one for each token.
    max: 32_768,
    help:
      "Maximum number of tokens in one step of the decoder; longer prompts take several steps. Default: 512.",
  }),
  maxSequences: integer({
    placeholder: "<count>",
    min: 1,
    max: 1024,
    help: "Maximum number of requests that share a step of the decoder. Default: 32.",
  }),
  maxStoredResponses: integer({
    placeholder: "<count>",
    min: 0,
    max: 1_000_000,
    fallback: 1000,
    help: "Maximum number of answers of /responses kept in memory for previous_response_id.",
  }),
  storedResponsesMb: integer({
    placeholder: "<MiB>",
    min: 1,
    max: 65_536,
    fallback: 64,
    help: "Maximum memory for stored answers of /responses; the oldest are dropped first.",
  }),
  reasoningField: choice({
    values: REASONING_FIELDS,
    fallback: "reasoning_content",
    help:
      "Field of chat completions that holds the model's reasoning. Some clients read only the field named " +
      "reasoning. The other field is not sent, because some clients would show both.",
  }),
  ui: toggle({
    fallback: true,
    help: "Serve the web page at /. Without it, / links to the API's description.",
  }),
  prefixCache: toggle({
    fallback: true,
    help: "Reuse the keys and values of prompts that begin with the same tokens.",
  }),
  batchInvariant: toggle({
    help:
      "Compute bit-identical results whatever other requests run at the same time. GPUs always do; " +
      "on the CPU, prompts and steps of more than six sequences then take longer.",
  }),
  ...IMAGE_FLAGS,
  allowedHost: list({
    placeholder: "<host>",
    parseItem: parseHost,
    help: "Host name that clients may use for this server, besides loopback names and the address.",
  }),
  corsOrigin: list({
    placeholder: "<origin>",
    parseItem: parseOrigin,
    help:
      "Origin whose web pages may call this server (https://example.org, app://obsidian.md); * " +
      "allows all.",
  }),
  apiKey: text({
    placeholder: "<key>",
    help:
      "Require this bearer token on everything but /health. Prefer the environment variable, because other " +
      "users of this machine can read command lines.",
  }),
  apiKeyFile: text({
    placeholder: "<file>",
    help:
      "File of API keys, one per line as label:key; the log names callers by their label. A server " +
      "that was started without a terminal reads the file again on SIGHUP.",
  }),
  trustedProxy: list({
    placeholder: "<address>",
    parseItem: parseProxy,
    help:
      "Address or range (10.0.0.0/8) of a proxy whose X-Forwarded-For header is trusted. A request from " +
      "there only counts as local if that header says so. Use 127.0.0.1 if a proxy on this machine does not " +
      "mark the requests that it forwards.",
  }),
  mediaDir: text({
    placeholder: "<folder>",
    help: "Folder from which file:// references may be read if the address is not loopback.",
  }),
  allowPrivateMedia: toggle({
    help:
      "Fetch http(s) media from private and loopback addresses even if other machines may call.",
  }),
  logLevel: choice({
    values: LOG_LEVELS,
    fallback: "info",
    help: "Lowest level of the log lines written to standard error.",
  }),
  logFormat: choice({
    values: LOG_FORMATS,
    fallback: "text",
    help: "text: for people. json: one object per line, the start-up report included.",
  }),
} satisfies FlagTable;

/**
 * Splits the flags of `serve`. `MODEL_FLAGS` are those with which a model runs. The others name a model (`_…`), or are
 * also flags of the router itself.
 */
const {
  model: _model,
  modelAlias: _modelAlias,
  anyModel: _anyModel,
  kind: _kind,
  address,
  port,
  allowRemoteShutdown,
  drainSeconds,
  maxConnections,
  bodyMemoryMb,
  allowedHost,
  corsOrigin,
  apiKey,
  apiKeyFile,
  trustedProxy,
  logLevel,
  logFormat,
  ui,
  ...MODEL_FLAGS
} = SERVE_FLAGS;

/** Flags that a router passes on to the processes of its models. Its configuration file can set them for each model. */
export const ROUTED_FLAGS = { drainSeconds, bodyMemoryMb, logLevel, logFormat, ...MODEL_FLAGS };

export const ROUTER_FLAGS = {
  model: texts({
    short: "m",
    placeholder: "<model>",
    help: "Model to route to, named as for serve.",
  }),
  config: text({
    placeholder: "<file>",
    help: "YAML file that lists models, each with flags of serve.",
  }),
  maxLoaded: integer({
    placeholder: "<count>",
    min: 1,
    max: 1000,
    fallback: 4,
    help:
      "Maximum number of models loaded at once. To load another, the least recently used one is ended when its " +
      "requests are done.",
  }),
  maxMemoryMb: integer({
    placeholder: "<MiB>",
    min: 1,
    max: 100_000_000,
    help:
      "Maximum memory of all loaded models together. To load another, models are ended as with --max-loaded, " +
      "until it fits. A model's memory is the RAM of its process, or its memory-mb in the file of " +
      "--config. GPU memory only counts if it is part of memory-mb. Default: no limit.",
  }),
  idleTimeout: integer({
    placeholder: "<seconds>",
    min: 1,
    max: 1_000_000,
    help: "Time without a request after which a model's process is ended. Default: never.",
  }),
  address,
  port,
  allowRemoteShutdown,
  maxConnections,
  allowedHost,
  corsOrigin,
  apiKey,
  apiKeyFile,
  trustedProxy,
  ui,
  ...ROUTED_FLAGS,
} satisfies FlagTable;

export const PULL_FLAGS = WEIGHTS_FLAGS;

export const RUN_FLAGS = {
  input: texts({
    short: "i",
    placeholder: "<text|file>",
    help:
      "Input for the model, after the prompt if there is one: a text, or the path of a file. A word " +
      "with a slash or a file extension is read as a path. A text model answers all inputs together; " +
      "an embedding model turns each into a vector; a reranker takes a query and documents; a speech " +
      "model takes recordings; a speech synthesis model takes texts, and optionally a recording whose " +
      "voice to clone; a vision model takes images and texts; an OCR model reads each image; a " +
      "background-removal model cuts out the subject of each image. - is standard input. Without an " +
      "input, a pipe is read, and at a terminal a chat begins.",
  }),
  output: text({
    short: "o",
    placeholder: "<file>",
    help:
      "File to write the result to, once it is complete. Its name gives the format of speech: " +
      ".wav, .mp3, .flac, .opus, .pcm; an image without its background is a .png. For several such " +
      "images: a folder, or a name to which numbers are added. Default, or with -: standard output.",
  }),
  temperature: number({
    placeholder: "<number>",
    min: 0,
    max: 2,
    help: "Sampling temperature of a text, vision, OCR or speech recognition model; 0 is greedy.",
  }),
  maxTokens: integer({
    placeholder: "<count>",
    min: 1,
    max: 1_000_000,
    help:
      "Maximum number of tokens of an answer or a transcript. Default: up to the end of the context, or of the " +
      "image or recording.",
  }),
  voice: text({
    placeholder: "<name>",
    help: "Voice of a speech synthesis model. Default: its first voice.",
  }),
  speed: number({
    placeholder: "<number>",
    min: 0.25,
    max: 4,
    help: "Speed of a speech synthesis model; 1 is the normal speed.",
  }),
  verbose: toggle({
    short: "v",
    help: "Also print the times of loading and of each answer, and tokens/s, to standard error.",
  }),
  ...IMAGE_FLAGS,
  ...WEIGHTS_FLAGS,
  ...CPU_FLAGS,
  ...SPEECH_FLAGS,
} satisfies FlagTable;

/** Flags of commands that print a report: `list`, `ps`, `doctor`, `inspect`. */
export const REPORT_FLAGS = {
  json: toggle({ help: "Print JSON." }),
} satisfies FlagTable;

export const RM_FLAGS = {
  yes: toggle({ short: "y", help: "Do not ask for confirmation." }),
} satisfies FlagTable;
