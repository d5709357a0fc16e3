/**
 * Converts sound with an installed ffmpeg, for formats that are not supported here.
 *
 * @module
 */
import { HearthError, invalidMedia } from "../base/errors.ts";
import { MAX_AUDIO_HOURS } from "./audio/sound.ts";

/** Time limit: an hour of sound takes seconds to convert, so a longer conversion has hung. */
const MAX_MINUTES = 10;
/** Maximum number of characters of ffmpeg's own message that are shown. */
const MAX_MESSAGE_CHARS = 500;
const SAMPLE_BYTES = Float32Array.BYTES_PER_ELEMENT;

/** Options for converting a file. */
interface FfmpegOptions {
  /** Path or name of the program. */
  readonly program: string;
  readonly sampleRateHz: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Decodes a file's first sound track to one channel, as f32 chunks of any length. The file goes to ffmpeg's standard
 * input, and the samples come from its standard output. ffmpeg opens no other file and no connection. An abort kills
 * it.
 *
 * @throws {HearthError} `invalid_media` when ffmpeg finds no sound, takes longer than {@linkcode MAX_MINUTES}, or
 * returns more than {@linkcode MAX_AUDIO_HOURS}; `inference_failed` when the program cannot be started.
 */
export async function* convertWithFfmpeg(
  file: Uint8Array<ArrayBuffer>,
  { program, sampleRateHz, signal }: FfmpegOptions,
): AsyncGenerator<Float32Array<ArrayBuffer>, void> {
  signal?.throwIfAborted();
  const timeout = AbortSignal.timeout(MAX_MINUTES * 60_000);
  const process = start(program, sampleRateHz);
  const end = () => kill(process);
  const stop = AbortSignal.any([timeout, ...(signal === undefined ? [] : [signal])]);
  stop.addEventListener("abort", end);
  const fed = feed(process, file);
  const message = readMessage(process);
  let numSamples = 0;
  try {
    for await (const samples of joinSamples(process.stdout)) {
      numSamples += samples.length;
      if (numSamples > MAX_AUDIO_HOURS * 3600 * sampleRateHz) {
        throw invalidMedia(
          `The file lasts longer than ${MAX_AUDIO_HOURS} hours, which is the limit.`,
        );
      }
      yield samples;
    }
    signal?.throwIfAborted();
    if (timeout.aborted) throw invalidMedia(`ffmpeg took longer than ${MAX_MINUTES} minutes.`);
    if (numSamples === 0) {
      throw invalidMedia(
        `ffmpeg finds no sound in the file: ${await message || "it says nothing"}`,
      );
    }
  } finally {
    stop.removeEventListener("abort", end);
    end();
    await Promise.all([fed, message, process.status]);
  }
}

/** Whether the program can be started, and identifies itself as ffmpeg. */
export async function isFfmpeg(program: string): Promise<boolean> {
  try {
    const { stdout } = await new Deno.Command(program, {
      args: ["-version"],
      clearEnv: true,
      stdin: "null",
      stderr: "null",
    }).output();
    return new TextDecoder().decode(stdout).startsWith("ffmpeg version");
  } catch {
    return false;
  }
}

function start(program: string, sampleRateHz: number): Deno.ChildProcess {
  const input = [
    "-nostdin",
    "-hide_banner",
    "-v",
    "error",
    "-protocol_whitelist",
    "pipe",
    "-i",
    "pipe:0",
  ];
  const output = [
    "-map",
    "0:a:0",
    "-ac",
    "1",
    "-ar",
    String(sampleRateHz),
    "-f",
    "f32le",
    "pipe:1",
  ];
  try {
    return new Deno.Command(program, {
      args: [...input, ...output],
      clearEnv: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (error) {
    throw new HearthError(
      "inference_failed",
      "The program given by --ffmpeg could not be started.",
      {
        cause: error,
      },
    );
  }
}

function kill(process: Deno.ChildProcess): void {
  try {
    process.kill("SIGKILL");
  } catch {
    // The process has already ended.
  }
}

/** Writes the file. The program may close its input when it has enough. */
async function feed(process: Deno.ChildProcess, file: Uint8Array<ArrayBuffer>): Promise<void> {
  const writer = process.stdin.getWriter();
  try {
    await writer.write(file);
    await writer.close();
  } catch {
    // The process has ended, or needs no more input.
  }
}

async function readMessage(process: Deno.ChildProcess): Promise<string> {
  let text = "";
  for await (const chunk of process.stderr.pipeThrough(new TextDecoderStream())) {
    if (text.length < MAX_MESSAGE_CHARS) text += chunk;
  }
  const [line = ""] = text.slice(0, MAX_MESSAGE_CHARS).trim().split("\n").slice(-1);
  return line.replaceAll(/\p{Cc}/gu, " ");
}

/** Joins samples that are split between two chunks. */
async function* joinSamples(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<Float32Array<ArrayBuffer>, void> {
  let rest = new Uint8Array();
  for await (const chunk of chunks) {
    const bytes = new Uint8Array(rest.length + chunk.length);
    bytes.set(rest);
    bytes.set(chunk, rest.length);
    const length = Math.floor(bytes.length / SAMPLE_BYTES);
    rest = bytes.slice(length * SAMPLE_BYTES);
    if (length > 0) yield new Float32Array(bytes.buffer, 0, length);
  }
}
