/**
 * Answers a speech request with the worker's events: as JSON, audio or server-sent events.
 *
 * @module
 */
import { type AudioCompletion, audioCompletion } from "../../../wire/media_completion.ts";
import type { SpeechEvent } from "../../../wire/speech.ts";
import { HearthError } from "../../../base/errors.ts";
import { joinBytes } from "../../../base/join_bytes.ts";
import { closeWavHeader, CONTENT_TYPES, type SoundFormat } from "../../../media/sound_format.ts";
import type { SpeakEvent } from "../../../models/task.ts";
import { newCompletionHead } from "../../../wire/chat_response.ts";
import { successes } from "../../session/task_stream.ts";
import { formatErrorEvent, formatEvent, logFailure, type TaskEvents, withFirst } from "../sse.ts";

const MIB = 1024 * 1024;
/** Largest audio of a JSON answer: as base64, more would approach JavaScript's longest string. */
const MAX_WHOLE_BYTES = 100 * MIB;

/**
 * Reads all the audio and returns it as a chat completion.
 *
 * @throws {HearthError} the error of an error event; `invalid_value` when the audio is too long for JSON.
 */
export async function speechAsJson(
  events: TaskEvents<SpeakEvent>,
  { model, format }: { readonly model: string; readonly format: SoundFormat },
): Promise<AudioCompletion> {
  const { file, numTokens } = await readWhole(events, format);
  const head = newCompletionHead(model);
  return audioCompletion(head, { file, contentType: CONTENT_TYPES[format], numTokens });
}

/**
 * Streams audio as it is generated. Audio that came as a single event has a `content-length`. An error after the first
 * audio is logged, and aborts the answer.
 */
export async function speechAsSound(
  events: TaskEvents<SpeakEvent>,
  { format, requestId }: { readonly format: SoundFormat; readonly requestId: string },
): Promise<Response> {
  const headers = { "content-type": CONTENT_TYPES[format] };
  let result = await events.next();
  if (result.value?.type === "admitted") result = await events.next();
  const { value: first } = result;
  const all = withFirst(Promise.resolve(result), events);
  if (first?.type !== "audio" || first.isLast) {
    const { file } = await readWhole(all, format);
    return new Response(file, { headers: { ...headers, "content-length": `${file.length}` } });
  }
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value: event } = await all.next();
      if (done || event.type === "done") return controller.close();
      if (event.type === "audio") return controller.enqueue(event.bytes);
      if (event.type === "admitted") return;
      const error = HearthError.fromWire(event.error);
      logFailure(requestId, error);
      controller.error(error);
    },
    async cancel() {
      await all.return();
    },
  }, { highWaterMark: 0 });
  return new Response(body, {
    // Neither caches nor proxies may buffer the audio.
    headers: { ...headers, "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" },
  });
}

/** An event without audio. */
export const NO_SPEECH: string = writeSpeechEvent({ type: "speech.audio.delta", audio: "" });

function writeSpeechEvent(event: SpeechEvent): string {
  return formatEvent(JSON.stringify(event));
}

/** Formats an event of the worker for the client. */
export function formatSpeech(event: SpeakEvent): string {
  switch (event.type) {
    case "admitted":
      return "";
    case "audio":
      return writeSpeechEvent({ type: "speech.audio.delta", audio: event.bytes.toBase64() });
    case "error":
      return formatErrorEvent(event.error);
    case "done": {
      const { textTokens: tokens } = event;
      const usage = { input_tokens: tokens, output_tokens: 0, total_tokens: tokens };
      return writeSpeechEvent({ type: "speech.audio.done", usage });
    }
  }
}

/** Reads all the audio into one file. Its header has the length if the format allows it. */
async function readWhole(
  events: TaskEvents<SpeakEvent>,
  format: SoundFormat,
): Promise<{ file: Uint8Array<ArrayBuffer>; numTokens: number }> {
  const parts: Uint8Array[] = [];
  let numBytes = 0;
  let numTokens = 0;
  for await (const event of successes(events)) {
    if (event.type === "done") numTokens = event.textTokens;
    if (event.type !== "audio") continue;
    parts.push(event.bytes);
    numBytes += event.bytes.length;
    if (numBytes > MAX_WHOLE_BYTES) throw tooLong();
  }
  const file = joinBytes(parts);
  if (format === "wav") closeWavHeader(file);
  return { file, numTokens };
}

function tooLong(): HearthError {
  return new HearthError(
    "invalid_value",
    `The speech is longer than the ${MAX_WHOLE_BYTES / MIB} MiB that one answer may hold. ` +
      "Send the text as input, whose answer is streamed, or request mp3 or opus.",
  );
}
