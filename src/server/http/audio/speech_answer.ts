/**
 * Answers a speech request with the worker's events: as JSON, audio or server-sent events.
 *
 * @module
 */
import { nestedError } from "../../../wire/error_body.ts";
import { type AudioCompletion, audioCompletion } from "../../../wire/media_completion.ts";
import type { SpeechEvent } from "../../../wire/speech.ts";
import { HearthError } from "../../../base/errors.ts";
import { joinBytes } from "../../../base/join_bytes.ts";
import { closeWavHeader, CONTENT_TYPES, type SoundFormat } from "../../../media/sound_format.ts";
import type { SpeakEvent } from "../../../models/task.ts";
import { newCompletionHead } from "../../../wire/chat_response.ts";
import { formatEvent, type TaskEvents, withFirst } from "../sse.ts";

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
 * Streams audio as it is generated. Audio that came as a single event has a `content-length`.
 *
 * @param options.onError called with an error after the first audio, which aborts the answer.
 */
export async function speechAsSound(
  events: TaskEvents<SpeakEvent>,
  { format, onError }: {
    readonly format: SoundFormat;
    readonly onError: (error: HearthError) => void;
  },
): Promise<Response> {
  const headers = { "content-type": CONTENT_TYPES[format] };
  let result = await events.next();
  if (result.value?.type === "admitted") result = await events.next();
  if (result.done) throw endedEarly();
  const { value: first } = result;
  const all = withFirst(Promise.resolve(result), events);
  if (first.type !== "audio" || first.isLast) {
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
      onError(error);
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

/** Creates the function that turns the worker's events, in order, into the client's. */
export function createSpeechFormat(
  { onError }: {
    /** Called with the error of an error event, which ends the client's stream. */
    onError: (error: HearthError) => void;
  },
): (event: SpeakEvent) => string {
  return (event) => {
    switch (event.type) {
      case "admitted":
        return "";
      case "audio":
        return writeSpeechEvent({ type: "speech.audio.delta", audio: event.bytes.toBase64() });
      case "error": {
        const error = HearthError.fromWire(event.error);
        onError(error);
        return formatEvent(JSON.stringify(nestedError(error)));
      }
      case "done": {
        const { textTokens: tokens } = event;
        const usage = { input_tokens: tokens, output_tokens: 0, total_tokens: tokens };
        return writeSpeechEvent({ type: "speech.audio.done", usage });
      }
    }
  };
}

/** Reads all the audio into one file. Its header has the length if the format allows it. */
async function readWhole(
  events: TaskEvents<SpeakEvent>,
  format: SoundFormat,
): Promise<{ file: Uint8Array<ArrayBuffer>; numTokens: number }> {
  const parts: Uint8Array[] = [];
  let numBytes = 0;
  for await (const event of events) {
    if (event.type === "error") throw HearthError.fromWire(event.error);
    if (event.type === "admitted") continue;
    if (event.type === "done") {
      const file = joinBytes(parts);
      if (format === "wav") closeWavHeader(file);
      return { file, numTokens: event.textTokens };
    }
    parts.push(event.bytes);
    numBytes += event.bytes.length;
    if (numBytes > MAX_WHOLE_BYTES) throw tooLong();
  }
  throw endedEarly();
}

function tooLong(): HearthError {
  return new HearthError(
    "invalid_value",
    `The speech is longer than the ${MAX_WHOLE_BYTES / MIB} MiB that one answer may hold. ` +
      "Send the text as input, whose answer is streamed, or request mp3 or opus.",
  );
}

function endedEarly(): HearthError {
  return new HearthError("inference_failed", "The model ended this request without a result.");
}
