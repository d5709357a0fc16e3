/**
 * Every flag of every command: its range, its default and its help text, once. These tables parse the command line
 * and the environment, print `--help`, and fill the tables of docs/flags.md.
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

/** Flags of `serve`. */
export const SERVE_FLAGS = {
  model: text({
    short: "m",
    placeholder: "<model>",
    help:
      "Model to serve: a folder, a catalogue alias (qwen3-0.6b), or owner/name[@revision] on the " +
      "Hugging Face hub. Without it the built-in hearth-demo-chat is served, whose context of 2,048 " +
      "tokens is too short for agents: for tools take qwen3-0.6b or, the larger the better, qwen3-4b.",
  }),
  modelAlias: list({
    placeholder: "<name>",
    parseItem: (name, source) => {
      if (name === "") throw new UsageError(`${source} has an empty name.`);
      return name;
    },
    help: "Another name that requests may use for the model, for clients that cannot choose one: " +
      "tts-1, whisper-1, text-embedding-3-small.",
  }),
  anyModel: toggle({
    help: "Answer to every name of a model. Without it, an unknown one is answered 404.",
  }),
  address: text({
    short: "a",
    placeholder: "<address>",
    fallback: "127.0.0.1",
    help: "Address to listen on. Anything but loopback lets other machines in: see --api-key.",
  }),
  port: integer({
    short: "p",
    placeholder: "<port>",
    min: 0,
    max: 65535,
    fallback: 10100,
    help: "Port to listen on; 0 takes a free one.",
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
    help: "Requests that may wait while the model works on others; more are answered 429.",
  }),
  workerTimeout: integer({
    placeholder: "<seconds>",
    min: 1,
    max: 86_400,
    fallback: 30,
    help:
      "Time that the model's thread may answer nothing: it is then replaced, and its requests end " +
      "with 503. A step of the model, and each stage of its loading, may take twenty times as long.",
  }),
  drainSeconds: integer({
    placeholder: "<seconds>",
    min: 0,
    max: 3600,
    fallback: 1,
    help:
      "Time that requests in flight have to finish when the server is asked to stop. With more " +
      "than 1 it keeps answering meanwhile, new requests with 503, so that a proxy asks another.",
  }),
  maxConnections: integer({
    placeholder: "<count>",
    min: 1,
    max: 1_000_000,
    fallback: 4096,
    help:
      "Connections open at once; beyond them idle ones are closed, and new ones refused. Fewer " +
      "where the process may open fewer files (ulimit -n).",
  }),
  bodyMemoryMb: integer({
    placeholder: "<MiB>",
    min: 1,
    max: 1_048_576,
    help:
      "Memory for the request bodies that are being read, all together; more are answered 429. " +
      "Default: an eighth of what the machine or container has, 1024 at most.",
  }),
  kvCacheMb: integer({
    placeholder: "<MiB>",
    min: 1,
    max: 1_048_576,
    help:
      "Most device memory for keys and values, which grow as requests need them. Default: what the " +
      "device gives; on the CPU and where a GPU has no memory of its own, 60 % of what is free.",
  }),
  kvCacheDtype: choice({
    values: KV_CACHE_DTYPES,
    fallback: "auto",
    help: "How keys and values are kept. auto: as the device computes with them, in 16 bits on a " +
      "GPU or 32. q8: in 8 bits, with a scale for each token and head: half of 16 bits, or a quarter " +
      "of 32.",
  }),
  maxModelLen: integer({
    placeholder: "<tokens>",
    min: 2,
    max: 16_777_216,
    help:
      "Most tokens of prompt and answer together. Default: as many as the model was made for, or " +
      "fewer where the memory for keys and values does not hold them.",
  }),
  maxBatchTokens: integer({
    placeholder: "<count>",
    min: 1,
    // A GPU starts 65,535 workgroups of a kernel at most: one for each token, or for four rows of attention.
    max: 32_768,
    help: "Most tokens in one step of the decoder; longer prompts take several. Default: 512.",
  }),
  maxSequences: integer({
    placeholder: "<count>",
    min: 1,
    max: 1024,
    help: "Most requests that share a step of the decoder. Default: 32.",
  }),
  maxStoredResponses: integer({
    placeholder: "<count>",
    min: 0,
    max: 1_000_000,
    fallback: 1000,
    help: "Answers of /responses kept in memory for previous_response_id.",
  }),
  storedResponsesMb: integer({
    placeholder: "<MiB>",
    min: 1,
    max: 65_536,
    fallback: 64,
    help: "Memory for all of them; the oldest are dropped first.",
  }),
  reasoningField: choice({
    values: REASONING_FIELDS,
    fallback: "reasoning_content",
    help:
      "Field of chat completions that holds the thought. Clients that read only reasoning need " +
      "the other one; both at once break clients that take them for one.",
  }),
  ui: toggle({
    fallback: true,
    help: "Serve the web page at /. Without it, / leads to the description of the API.",
  }),
  prefixCache: toggle({
    fallback: true,
    help: "Reuse the keys and values of equal prompt prefixes.",
  }),
  batchInvariant: toggle({
    help:
      "Compute the same tokens, to the bit, whatever other requests run beside. GPUs always do; " +
      "on the CPU prompts, and more than four sequences, take longer.",
  }),
  ...IMAGE_FLAGS,
  allowedHost: list({
    placeholder: "<host>",
    parseItem: parseHost,
    help:
      "Host name by which clients may call this server, besides loopback names and the address.",
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
      "Require this bearer token on everything but /health. Prefer the environment variable: other " +
      "users of this machine can read command lines.",
  }),
  apiKeyFile: text({
    placeholder: "<file>",
    help:
      "File of such keys, one on a line as label:key; the log names callers by label. A server " +
      "without a terminal reads it again at SIGHUP.",
  }),
  trustedProxy: list({
    placeholder: "<address>",
    parseItem: parseProxy,
    help: "Address or range (10.0.0.0/8) of a proxy whose X-Forwarded-For is trusted: nothing " +
      "else that comes from there counts as local. Name 127.0.0.1 where a proxy on this machine " +
      "may not say whom it serves.",
  }),
  mediaDir: text({
    placeholder: "<folder>",
    help: "Folder from which file:// references are served when the address is not loopback.",
  }),
  allowPrivateMedia: toggle({
    help:
      "Fetch http(s) media from private and loopback addresses even when other machines may call.",
  }),
  logLevel: choice({
    values: LOG_LEVELS,
    fallback: "info",
    help: "Least severity of the log lines written to standard error.",
  }),
  logFormat: choice({
    values: LOG_FORMATS,
    fallback: "text",
    help: "text: for people. json: one object per line, the start-up report included.",
  }),
} satisfies FlagTable;

/** Flags of `serve` that each model of a router has for itself. */
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

/** Flags that the processes behind a router have from it, or from its configuration. */
export const ROUTED_FLAGS = { drainSeconds, bodyMemoryMb, logLevel, logFormat, ...MODEL_FLAGS };

/** Flags of `router`. */
export const ROUTER_FLAGS = {
  model: texts({
    short: "m",
    placeholder: "<model>",
    help: "Model to route to, as serve takes it. The flag may be given several times.",
  }),
  config: text({
    placeholder: "<file>",
    help: "YAML file of models, with flags of serve for each.",
  }),
  maxLoaded: integer({
    placeholder: "<count>",
    min: 1,
    max: 1000,
    fallback: 4,
    help:
      "Most models loaded at once. For another, the one used least recently is ended when its " +
      "requests are done.",
  }),
  maxMemoryMb: integer({
    placeholder: "<MiB>",
    min: 1,
    max: 100_000_000,
    help:
      "Most memory of all loaded models together; for another, models are ended as with --max-loaded " +
      "until it fits. A model's is what its process holds in RAM, or what the file of --config gives " +
      "as memory-mb: memory of a GPU is not counted otherwise. Default: not limited.",
  }),
  idleTimeout: integer({
    placeholder: "<seconds>",
    min: 1,
    max: 1_000_000,
    help: "Time without a request after which a model is ended. Default: never.",
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

/** Flags of `pull`. */
export const PULL_FLAGS = WEIGHTS_FLAGS;

/** Flags of `run`. */
export const RUN_FLAGS = {
  input: texts({
    short: "i",
    placeholder: "<text|file>",
    help:
      "What the model gets, after the prompt if there is one: a text, or the path of a file. A word " +
      "with a slash or a file extension is read as a path. A text model answers all inputs together; " +
      "an embedding model turns each into a vector; a reranker takes a query and documents; a speech " +
      "model takes recordings; a speech synthesis model takes texts, and perhaps a recording whose " +
      "voice to clone; a vision model takes images and texts; an OCR model reads each image; a " +
      "background-removal model cuts out each. - is standard input. Without an input, a pipe is read, " +
      "and a terminal becomes a chat.",
  }),
  output: text({
    short: "o",
    placeholder: "<file>",
    help: "File to write the result to, once it is complete; speech is written as its name says: " +
      ".wav, .mp3, .flac, .opus, .pcm; an image without its background is a .png. Of several such " +
      "images: a folder, or a name that gets numbers. Default, and for -: standard output.",
  }),
  temperature: number({
    placeholder: "<number>",
    min: 0,
    max: 2,
    help: "Sampling temperature of a text or speech model; 0 is greedy.",
  }),
  maxTokens: integer({
    placeholder: "<count>",
    min: 1,
    max: 1_000_000,
    help:
      "Most tokens of an answer or a transcript. Default: to the end of the context, or of the " +
      "image or recording.",
  }),
  voice: text({
    placeholder: "<name>",
    help: "Voice of a speech synthesis model. Default: its first.",
  }),
  speed: number({
    placeholder: "<number>",
    min: 0.25,
    max: 4,
    help: "Speed of a speech synthesis model; 1 is its own.",
  }),
  verbose: toggle({
    short: "v",
    help: "Also write to standard error how long loading and each answer took, and tokens/s.",
  }),
  ...IMAGE_FLAGS,
  ...WEIGHTS_FLAGS,
  ...CPU_FLAGS,
  ...SPEECH_FLAGS,
} satisfies FlagTable;

/** Flags of commands that report something: `list`, `ps`, `doctor`, `inspect`. */
export const REPORT_FLAGS = {
  json: toggle({ help: "Print JSON." }),
} satisfies FlagTable;

/** Flags of `rm`. */
export const RM_FLAGS = {
  yes: toggle({ short: "y", help: "Do not ask." }),
} satisfies FlagTable;
