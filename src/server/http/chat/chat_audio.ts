/**
 * Speech recognition through the chat endpoint: a message's audio part is the recording, the transcript is the
 * completion.
 *
 * @module
 */
import { type ChatRequest, readMaxTokens } from "../../../wire/chat_request.ts";
import type { Session } from "../../session/session.ts";
import type { TaskStream } from "../../session/task_stream.ts";
import type { ChatEvent, TranscribeEvent } from "../../../models/task.ts";
import type { ChatTaskOptions } from "./chat_task.ts";
import { readPart } from "../media.ts";
import { findOnlyMedia } from "../only_media.ts";
import type { TaskEvents } from "../task_events.ts";

/**
 * Transcribes the audio part of the last user message. Text parts are ignored: a recogniser takes no instructions.
 *
 * @throws {HearthError} `invalid_value` unless the message has one audio part; `unsupported_by_model` for other media;
 * `invalid_media`.
 */
export async function transcribeChat(
  request: ChatRequest,
  options: ChatTaskOptions & {
    readonly session: Session;
    /** Called with what is missing of a recording that ends early, before the first word. */
    readonly onTruncated: (message: string) => void;
  },
): Promise<TaskEvents<ChatEvent>> {
  const { part, param } = findOnlyMedia(request.messages, {
    wants: "audio",
    info: options.info,
  });
  const { session, requestId, signal, onTruncated } = options;
  const audio = await readPart(part, { ...options, param });
  const temperature = request.temperature ?? 0;
  const maxTokens = readMaxTokens(request);
  const task = { type: "transcribe", requestId, audio, param, temperature, maxTokens } as const;
  return new TranscriptAsChat(session.stream(task, { signal }), onTruncated);
}

/** Converts a transcription's events to those of a chat. */
class TranscriptAsChat implements TaskEvents<ChatEvent> {
  readonly #events: TaskStream<TranscribeEvent>;
  readonly #onTruncated: (message: string) => void;
  readonly #ready: ChatEvent[] = [];
  #hasText = false;

  constructor(events: TaskStream<TranscribeEvent>, onTruncated: (message: string) => void) {
    this.#events = events;
    this.#onTruncated = onTruncated;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<ChatEvent>> {
    while (this.#ready.length === 0) {
      const { done, value } = await this.#events.next();
      if (done) return { done, value: undefined };
      this.#ready.push(...this.#translate(value));
    }
    return { done: false, value: this.#ready.shift()! };
  }

  async return(): Promise<IteratorResult<ChatEvent>> {
    this.#ready.length = 0;
    await this.#events.return();
    return { done: true, value: undefined };
  }

  #translate(event: TranscribeEvent): ChatEvent[] {
    switch (event.type) {
      case "admitted":
        return [event];
      case "start":
        if (event.truncated !== undefined) this.#onTruncated(event.truncated);
        return [{ type: "start", promptTokens: 0 }];
      case "segment": {
        const { text } = event.segment;
        const shown = this.#hasText ? text : text.trimStart();
        this.#hasText = true;
        return [{ type: "delta", index: 0, text: shown }];
      }
      case "done":
        return [{ type: "finish", index: 0, reason: event.isCut ? "length" : "stop" }, event];
      case "error":
        return [event];
    }
  }
}
