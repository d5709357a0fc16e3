/**
 * Gives the model's events for a chat request; shared by all API families that chat.
 *
 * @module
 */
import { log } from "../../../base/log.ts";
import { type ChatRequest, readMaxTokens } from "../../../wire/chat_request.ts";
import { type InferencePath, requireEndpoint, requireModelName } from "../../../wire/endpoints.ts";
import type { ChatEvent, TranscribeEvent } from "../../../models/task.ts";
import type { ModelInfo } from "../../../worker/protocol.ts";
import { chatTask, type ChatTaskOptions, toolOptions } from "./chat_task.ts";
import { isLocal } from "../locality.ts";
import type { AppDeps, Call } from "../route.ts";
import { type TaskEvents, untilAdmitted } from "../sse.ts";
import { warn } from "../warnings.ts";
import { changesNothing } from "../../../wire/unserved_fields.ts";
import { HearthError } from "../../../base/errors.ts";
import { findFormat } from "./chat_grammar.ts";
import type { Session } from "../../session/session.ts";
import type { TaskStream } from "../../session/task_stream.ts";
import { findOnlyMedia, readPart } from "../media.ts";

/** A request that was admitted. */
export interface OpenedChat {
  readonly info: ModelInfo;
  readonly events: TaskEvents<ChatEvent>;
}

/**
 * Sends `request`, received at `path`, to the model and waits until it is admitted.
 *
 * @throws {HearthError} when it names another model, the model does not serve the endpoint, or it is invalid as far as
 * known at admission.
 */
export async function openChat(
  request: ChatRequest,
  { call, deps, path, onlyCounts, onlyReads }: {
    readonly call: Call;
    readonly deps: AppDeps;
    readonly path: InferencePath;
    /** Nothing is generated: the prompt's tokens are counted. */
    readonly onlyCounts?: boolean;
    /** Nothing is generated: the prompt is computed, and so kept for requests that begin as it does. */
    readonly onlyReads?: boolean;
  },
): Promise<OpenedChat> {
  const { session, settings } = deps;
  const info = session.requireReady();
  requireModelName(info, request.model);
  requireEndpoint(info, path);
  warn(call, ...findUnservedBy(info, request));
  const { signal } = call.req.raw;
  const requestId = call.get("requestId");
  const options = {
    ...deps,
    info,
    requestId,
    signal,
    isLocal: isLocal(call.req.raw, call.env, settings),
    onTruncated: (message: string) => {
      log.warn("a recording ends early", { requestId, message });
      // The head of a stream was sent before.
      call.header("truncated", "true");
    },
  };
  if (info.kind === "asr") {
    return { info, events: await untilAdmitted(await transcribeChat(request, options)) };
  }
  const task = await chatTask(request, options);
  const generation = onlyReads ? { ...task.options, maxTokens: 0 } : task.options;
  const events = session.stream({ ...task, options: generation, onlyCounts }, { signal });
  return { info, events: await untilAdmitted(events) };
}

/** Why a model does not serve a field, by field. */
type Reasons = Readonly<Partial<Record<keyof ChatRequest, string>>>;

/** Fields that models do not serve which answer about one image or recording, without a conversation. */
const NO_CHAT: Reasons = {
  prompt_logprobs: "scores no prompts",
  continue_final_message: "continues no messages",
  skip_special_tokens: "writes text without special tokens",
};

/** Fields that models do not serve whose answer is read off their input. */
const NO_GENERATION: Reasons = {
  n: "gives one answer",
  include_stop_str_in_output: "ends before a stop string",
  stop_token_ids: "ends where its input ends, or at a string",
};

/** Passed over by models whose answer is read off their input. */
const NO_WEIGHTS: Reasons = {
  min_tokens: "ends where its input ends",
  ignore_eos: "ends where its input ends",
  logit_bias: "weighs no tokens",
  dry_multiplier: "weighs no tokens",
  presence_penalty: "weighs no tokens",
  frequency_penalty: "weighs no tokens",
  repetition_penalty: "weighs no tokens",
};

/** Fields that speech recognition does not serve. */
const NO_TRANSCRIPT: Reasons = {
  ...NO_GENERATION,
  stop_token_ids: "ends where the recording ends",
  stop: "ends where the recording ends",
  logprobs: "tells no log-probabilities of its tokens",
};

/** Passed over by speech recognition above a temperature of 0; below it they change nothing. */
const NO_SAMPLING: Reasons = {
  top_p: "samples with a temperature alone",
  top_k: "samples with a temperature alone",
  min_p: "samples with a temperature alone",
  top_n_sigma: "samples with a temperature alone",
  seed: "samples with seeds of its own; a temperature of 0 gives the same answer each time",
};

function refusedBy({ kind, readsLines }: ModelInfo): Reasons {
  if (kind === "asr") return { ...NO_CHAT, ...NO_TRANSCRIPT };
  return { ...NO_CHAT, ...(readsLines && NO_GENERATION) };
}

function passedOverBy({ kind, readsLines }: ModelInfo, { temperature }: ChatRequest): Reasons {
  if (kind === "asr") return { ...NO_WEIGHTS, ...((temperature ?? 0) > 0 && NO_SAMPLING) };
  return readsLines ? NO_WEIGHTS : {};
}

/**
 * Checks the fields that a text model serves and the loaded model does not: those that would change the meaning of the
 * answer are refused, those that tune it are passed over.
 *
 * @returns a warning for each field that is passed over.
 * @throws {HearthError} `unsupported_by_model` naming the first such field; `invalid_value` for tools or a format that
 * no model would take.
 */
function findUnservedBy(info: ModelInfo, request: ChatRequest): string[] {
  const { id, kind } = info;
  if (kind === "text" || kind === "vision") return [];
  const refuse = (param: string, why: string) => {
    const message = `${param}: the loaded model ${id} (${kind}) ${why}.`;
    throw new HearthError("unsupported_by_model", message, { param });
  };
  const { choice = "none" } = toolOptions(request) ?? {};
  if (choice !== "none") refuse("tools", "calls no functions");
  const format = findFormat(request);
  if (format !== undefined) {
    refuse(format.param, "writes what it reads or hears; the form of its answer cannot be set");
  }
  const isSet = ([name]: [string, string]) =>
    !changesNothing(name, request[name as keyof ChatRequest]);
  const [refused] = Object.entries(refusedBy(info)).filter(isSet);
  if (refused !== undefined) refuse(...refused);
  return Object.entries(passedOverBy(info, request)).filter(isSet)
    .map(([name, why]) => `${name} is passed over: ${id} (${kind}) ${why}`);
}

// Speech recognition through the chat endpoint: a message's audio part is the recording, the
// transcript is the completion.

/**
 * Transcribes the audio part of the last user message. Text parts are ignored: a recogniser takes no instructions.
 *
 * @throws {HearthError} `invalid_value` unless the message has one audio part; `unsupported_by_model` for other media;
 * `invalid_media`.
 */
async function transcribeChat(
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
