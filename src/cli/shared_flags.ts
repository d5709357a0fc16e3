/**
 * Flags that several commands have.
 *
 * @module
 */
import { CPU_RUNTIMES, DTYPES, MODEL_KINDS } from "../base/config.ts";
import { choice, type FlagTable, integer, text, toggle } from "./flag.ts";

/** Flags of every command, without environment variables. */
export const COMMON_FLAGS = {
  help: toggle({ short: "h", help: "Print this help and exit." }),
  version: toggle({ help: "Print the version and exit." }),
} satisfies FlagTable;

/** Which weights of a model, for which device. */
export const WEIGHTS_FLAGS = {
  device: choice({
    values: ["auto", "webgpu", "cpu"],
    fallback: "auto",
    help: "Where the model runs. auto: WebGPU where there is a hardware adapter, else the CPU. " +
      "webgpu: also on a software adapter.",
  }),
  dtype: choice({
    values: DTYPES,
    help: "Weights to load. Default: the best for the device among those the model has.",
  }),
  kind: choice({
    values: MODEL_KINDS,
    help: "What the model does. Default: detected from its folder.",
  }),
  offline: toggle({
    help: "Send no requests to the Hugging Face hub: use its cache on this machine. " +
      "HF_HUB_OFFLINE=1 does the same.",
  }),
} satisfies FlagTable;

/** How a model runs on the CPU. */
export const CPU_FLAGS = {
  cpuRuntime: choice({
    values: CPU_RUNTIMES,
    fallback: "auto",
    help: "Build of ONNX Runtime that models run on where --device is the CPU. native: " +
      "onnxruntime-node. web: onnxruntime-web, much slower. auto: native, or web where that does " +
      "not load.",
  }),
  cpuThreads: integer({
    placeholder: "<count>",
    min: 1,
    max: 64,
    help: "Threads that share the work of a model on the CPU, and those that decode and encode " +
      "images (background removal). Default: one per physical core, up to 4 for images.",
  }),
} satisfies FlagTable;

/** How large images and documents may be. */
export const IMAGE_FLAGS = {
  maxImageMegapixels: integer({
    placeholder: "<count>",
    min: 1,
    max: 256,
    fallback: 64,
    help:
      "Largest image that is decoded, in millions of pixels: each takes 3 or 4 bytes of memory. Pages of PDF files are drawn no larger.",
  }),
  maxPdfPages: integer({
    placeholder: "<count>",
    min: 1,
    max: 10_000,
    fallback: 100,
    help: "Most pages of a PDF file; one with more is refused.",
  }),
} satisfies FlagTable;

/** Companion models for speech recognition and synthesis. */
export const SPEECH_FLAGS = {
  vad: text({
    placeholder: "<folder>",
    help: "Folder of a voice activity model (Silero VAD in ONNX): a speech model then skips all " +
      "but speech. Default: whole recordings are transcribed.",
  }),
  ffmpeg: text({
    placeholder: "<program>",
    help:
      "Path of an ffmpeg, or ffmpeg for the one that is installed: it converts recordings that " +
      "Hearth does not read (AMR, WMA, AC-3 and others). Default: those are refused.",
  }),
  speakerEncoder: text({
    placeholder: "<folder>",
    help: "Folder of a speaker-embedding model (x-vector, in ONNX): SpeechT5 then clones " +
      "the voice of a recording. Default: only the voices of its folder.",
  }),
} satisfies FlagTable;
