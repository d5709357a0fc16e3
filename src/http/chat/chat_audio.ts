/**
 * Speech recognition through the chat endpoint: a message's audio part is the recording, the transcript is the
 * completion.
 *
 * @module
 */
import type { ChatRequest } from "../../api/chat_request.ts";
import { HearthError } from "../../errors.ts";
import type { Session } from "../../session/session.ts";
import type { TaskStream } from "../../session/task_stream.ts";
import type { ChatEvent, TranscribeEvent } from "../../models/task.ts";
import { grammarOf } from "./chat_grammar.ts";
import type { ChatTaskOptions } from "./chat_task.ts";
import { readPart } from "../media.ts";
import { findOnlyMedia } from "../only_media.ts";
import type { TaskEvents } from "../task_events.ts";

/**
 * Transcribes the audio part of the last user message. Text parts are ignored: a recogniser takes no instructions.
 *
 * @throws {HearthError} `invalid_value` unless the message has one audio part; `unsupported_by_model` for other media,
 * and where log-probabilities or a form of answer are asked for; `invalid_media`.
 */
export async function transcribeChat(
  request: ChatRequest,
  options: ChatTaskOptions & {
    readonly session: Session;
  },
): Promise<TaskEvents<ChatEvent>> {
  const { part, param } = findOnlyMedia(request.messages, {
    wants: "audio",
    info: options.info,
  });
  if ((request.n ?? 1) !== 1) {
    throw new HearthError("invalid_value", `n: a speech model gives 1 answer, saw ${request.n}.`, {
      param: "n",
    });
  }
  if (grammarOf(request) !== undefined) {
    throw new HearthError(
      "unsupported_by_model",
      "A speech model answers with the transcript; its format cannot be set.",
    );
  }
  if (request.logprobs === true) {
    throw new HearthError(
      "unsupported_by_model",
      "logprobs: a speech model tells no log-probabilities of its tokens.",
      { param: "logprobs" },
    );
  }
  const { session, requestId, signal } = options;
  const audio = await readPart(part, { ...options, param });
  const temperature = request.temperature ?? 0;
  const task = { type: "transcribe", requestId, audio, param, temperature } as const;
  const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? Infinity;
  return new TranscriptAsChat(session.stream(task, { signal }), maxTokens);
}

/** Converts a transcription's events to those of a chat. */
class TranscriptAsChat implements TaskEvents<ChatEvent> {
  readonly #events: TaskStream<TranscribeEvent>;
  readonly #maxTokens: number;
  readonly #ready: ChatEvent[] = [];
  #numTokens = 0;
  #hasText = false;

  /** @param maxTokens ends the answer before the first segment that has more than are left. */
  constructor(events: TaskStream<TranscribeEvent>, maxTokens: number) {
    this.#events = events;
    this.#maxTokens = maxTokens;
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
        return [{ type: "start", promptTokens: 0 }];
      case "segment": {
        const { text, tokens } = event.segment;
        if (this.#numTokens + tokens.length > this.#maxTokens) return this.#cut();
        this.#numTokens += tokens.length;
        const shown = this.#hasText ? text : text.trimStart();
        this.#hasText = true;
        return [{ type: "delta", index: 0, text: shown }];
      }
      case "done":
        return [{ type: "finish", index: 0, reason: "stop" }, event];
      case "error":
        return [event];
    }
  }

  /** What is left of the recording is not listened to. */
  #cut(): ChatEvent[] {
    void this.#events.return();
    const usage = { promptTokens: 0, completionTokens: this.#numTokens, cachedTokens: 0 };
    return [{ type: "finish", index: 0, reason: "length" }, { type: "done", usage }];
  }
}
