/**
 * Starts a chat request on the model, for all API families that chat.
 *
 * @module
 */
import { log } from "../../../base/log.ts";
import { type ChatRequest, readMaxTokens } from "../../../wire/chat_request.ts";
import { type InferencePath, requireEndpoint, requireModelName } from "../../../wire/models.ts";
import type { ChatEvent, TranscribeEvent } from "../../../models/task.ts";
import type { ModelInfo } from "../../../worker/protocol.ts";
import { type ChatTaskOptions, readToolOptions, toChatTask } from "./chat_task.ts";
import type { AppDeps, Call } from "../route.ts";
import { type TaskEvents, waitForAdmission } from "../sse.ts";
import { getMediaDeps, warn } from "../requests.ts";
import { changesNothing } from "../../../wire/unserved_fields.ts";
import { HearthError } from "../../../base/errors.ts";
import { findFormat } from "./chat_grammar.ts";
import type { Session } from "../../session/session.ts";
import type { TaskStream } from "../../session/task_stream.ts";
import { findOnlyMedia, readPart } from "../media.ts";

/** A chat request that was admitted. */
export interface OpenedChat {
  readonly info: ModelInfo;
  readonly events: TaskEvents<ChatEvent>;
}

/**
 * Sends a chat request to the model, and waits until it is admitted.
 *
 * @param options.path path of the endpoint that received the request.
 * @throws {HearthError} when the request names another model, the model does not serve the endpoint, the request is
 * invalid, or the worker refuses it.
 */
export async function openChat(
  request: ChatRequest,
  { call, deps, path, onlyCounts, onlyReads }: {
    readonly call: Call;
    readonly deps: AppDeps;
    readonly path: InferencePath;
    /** Whether to count the prompt's tokens without generating. */
    readonly onlyCounts?: boolean;
    /** Whether to compute the prompt without generating, so that it is cached for requests that begin with it. */
    readonly onlyReads?: boolean;
  },
): Promise<OpenedChat> {
  const { session } = deps;
  const info = session.requireReady();
  requireModelName(info, request.model);
  requireEndpoint(info, path);
  warn(call, ...checkServedFields(info, request));
  const { signal } = call.req.raw;
  const requestId = call.get("requestId");
  const options = {
    ...getMediaDeps(call, deps),
    session,
    info,
    requestId,
    onTruncated: (message: string) => {
      log.warn("a recording ends early", { requestId, message });
      // This has no effect on a stream, because its headers have been sent by now.
      call.header("truncated", "true");
    },
  };
  if (info.kind === "asr") {
    return { info, events: await waitForAdmission(await transcribeChat(request, options)) };
  }
  const task = await toChatTask(request, options);
  const generation = onlyReads ? { ...task.options, maxTokens: 0 } : task.options;
  const events = session.stream({ ...task, options: generation, onlyCounts }, { signal });
  return { info, events: await waitForAdmission(events) };
}

/** Reasons why a model does not serve fields, by field. Each reason completes the sentence "The model …". */
type Reasons = Readonly<Partial<Record<keyof ChatRequest, string>>>;

/** Fields that are not served by models that answer about one image or recording, without a conversation. */
const NO_CHAT: Reasons = {
  prompt_logprobs: "does not score prompts",
  continue_final_message: "does not continue messages",
  skip_special_tokens: "writes text without special tokens",
};

/** Fields that are not served by models whose answer is the text that they read or hear. */
const NO_GENERATION: Reasons = {
  n: "gives one answer",
  include_stop_str_in_output: "ends before a stop string",
  stop_token_ids: "ends where its input ends, or at a string",
};

/** Fields that are ignored by models whose answer is the text that they read or hear. */
const NO_PENALTIES: Reasons = {
  min_tokens: "ends where its input ends",
  ignore_eos: "ends where its input ends",
  logit_bias: "does not change the probabilities of tokens",
  dry_multiplier: "does not change the probabilities of tokens",
  presence_penalty: "does not change the probabilities of tokens",
  frequency_penalty: "does not change the probabilities of tokens",
  repetition_penalty: "does not change the probabilities of tokens",
};

/** Fields that are not served by speech recognition. */
const NO_TRANSCRIPT: Reasons = {
  ...NO_GENERATION,
  stop_token_ids: "ends where the recording ends",
  stop: "ends where the recording ends",
  logprobs: "gives no log-probabilities",
};

/** Fields that speech recognition ignores at temperatures above 0. At 0 they would have no effect in any model. */
const NO_SAMPLING: Reasons = {
  top_p: "samples by temperature alone",
  top_k: "samples by temperature alone",
  min_p: "samples by temperature alone",
  top_n_sigma: "samples by temperature alone",
  seed: "samples with seeds of its own; a temperature of 0 gives the same answer each time",
};

function listRefusedFields({ kind, readsLines }: ModelInfo): Reasons {
  if (kind === "asr") return { ...NO_CHAT, ...NO_TRANSCRIPT };
  return { ...NO_CHAT, ...(readsLines && NO_GENERATION) };
}

function listIgnoredFields(
  { kind, readsLines }: ModelInfo,
  { temperature }: ChatRequest,
): Reasons {
  if (kind === "asr") return { ...NO_PENALTIES, ...((temperature ?? 0) > 0 && NO_SAMPLING) };
  return readsLines ? NO_PENALTIES : {};
}

/**
 * Checks a request for fields that text models serve and the loaded model does not. Fields that would change the meaning
 * of the answer are refused. Fields that only tune the answer are ignored.
 *
 * @returns a warning for each ignored field.
 * @throws {HearthError} `unsupported_by_model` naming the first refused field; `invalid_value` for invalid tools or an
 * invalid format.
 */
function checkServedFields(info: ModelInfo, request: ChatRequest): string[] {
  const { id, kind } = info;
  if (kind === "text" || kind === "vision") return [];
  const refuse = (param: string, why: string) => {
    const message = `${param}: the loaded model ${id} (${kind}) ${why}.`;
    throw new HearthError("unsupported_by_model", message, { param });
  };
  const { choice = "none" } = readToolOptions(request) ?? {};
  if (choice !== "none") refuse("tools", "does not call functions");
  const format = findFormat(request);
  if (format !== undefined) {
    refuse(format.param, "writes what it reads or hears, so its answer cannot have a given format");
  }
  const isSet = ([name]: [string, string]) =>
    !changesNothing(name, request[name as keyof ChatRequest]);
  const [refused] = Object.entries(listRefusedFields(info)).filter(isSet);
  if (refused !== undefined) refuse(...refused);
  return Object.entries(listIgnoredFields(info, request)).filter(isSet)
    .map(([name, why]) => `${name} is ignored: ${id} (${kind}) ${why}`);
}

// Speech recognition through the chat endpoint: a message's audio part is the recording, and the transcript is the
// completion.

/**
 * Transcribes the audio part of the last user message. Text parts are ignored, because speech recognition takes no
 * instructions.
 *
 * @throws {HearthError} `invalid_value` unless the message has exactly one audio part; `unsupported_by_model` for other
 * media; `invalid_media`.
 */
async function transcribeChat(
  request: ChatRequest,
  options: ChatTaskOptions & {
    readonly session: Session;
    /** Called before the first word if the recording ends early, with a message that says what is missing. */
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

/** Converts a transcription's events to chat events. */
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
