/**
 * `POST /messages` and `POST /messages/count_tokens`: chat through Anthropic's Messages API. The model's events are
 * converted to a message, or to the events of its stream.
 *
 * @module
 */
import {
  CountTokensRequest,
  type MessageBlock,
  MessageEvent,
  MessageObject,
  MessagesRequest,
  TokenCount,
} from "../../../wire/messages.ts";
import { getInlineMedia } from "../body/inline_media.ts";
import {
  listHostedTools,
  mapDocumentTexts,
  toChatRequest,
  toClientParam,
} from "./messages_chat.ts";
import { openChat, type OpenedChat } from "../chat/open_chat.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "../route.ts";
import { formatNamedEvent, streamEvents } from "../sse.ts";
import { newId, readRequest, renameParam, warnOfTools } from "../requests.ts";
import { requireSuccess, waitForDone } from "../../session/task_stream.ts";
import { toAnthropicError } from "../../../wire/error_body.ts";
import { HearthError } from "../../../base/errors.ts";
import { isRecord } from "../../../base/json.ts";
import type { ChatEvent, ToolCallDelta } from "../../../models/task.ts";

const PATH = "/messages";
const EXAMPLE = { model: "", messages: [{ role: "user", content: "What does a cow say?" }] };
const ERRORS = [...JSON_ERRORS, "invalid_media", "model_not_found"] as const;

/** The endpoints of the Messages API. */
export function messagesRoutes(deps: AppDeps): Route[] {
  return [{
    method: "POST",
    path: PATH,
    operation: {
      summary: "Continue a conversation through Anthropic's Messages API",
      description: "With `stream` the answer comes as typed events, from `message_start` to " +
        "`message_stop`. Errors have Anthropic's shape.",
      request: MessagesRequest,
      requestExamples: { "a question": { ...EXAMPLE, max_tokens: 64 } },
      response: {
        description: "The message",
        content: { "application/json": MessageObject, "text/event-stream": MessageEvent },
      },
      errors: [...ERRORS, "context_length_exceeded"],
    },
    handle: (call) => createMessage(call, deps),
  }, {
    method: "POST",
    path: `${PATH}/count_tokens`,
    operation: {
      summary: "Count the tokens of a Messages request",
      request: CountTokensRequest,
      requestExamples: { "a question": EXAMPLE },
      response: { description: "The count", content: TokenCount },
      errors: ERRORS,
    },
    handle: (call) => countTokens(call, deps),
  }];
}

async function createMessage(call: Call, deps: AppDeps): Promise<Response> {
  const request = await readRequest(call, deps, { schema: MessagesRequest, unserved: "message" });
  warnOfTools(call, listHostedTools(request));
  const onlyReads = request.max_tokens === 0;
  const { info, events } = await openMessages(request, { call, deps, path: PATH, onlyReads });
  const builder = new MessageBuilder({ id: newId("msg"), model: info.id });
  if (request.stream) {
    const format = (event: ChatEvent) => builder.push(event).map(formatNamedEvent).join("");
    const emptyEvent = formatNamedEvent({ type: "ping" });
    return streamEvents(events, format, { requestId: call.get("requestId"), emptyEvent });
  }
  for await (const event of requireSuccess(events)) builder.push(event);
  return call.json(builder.message);
}

/** Opens the chat of a request. @throws {HearthError} about fields of the Messages API. */
async function openMessages(
  request: MessagesRequest | CountTokensRequest,
  options: Parameters<typeof openChat>[1],
): Promise<OpenedChat> {
  try {
    const media = getInlineMedia(options.call.req.raw.signal);
    const read = media === undefined
      ? request
      : mapDocumentTexts(request, (text) => media.decodeText(text));
    return await openChat(toChatRequest(read), options);
  } catch (error) {
    throw renameParam(error, (param) => toClientParam(param, request));
  }
}

async function countTokens(call: Call, deps: AppDeps): Promise<Response> {
  const request = await readRequest(call, deps, { schema: CountTokensRequest });
  const path = `${PATH}/count_tokens` as const;
  const { events } = await openMessages(request, { call, deps, path, onlyCounts: true });
  const { usage } = await waitForDone(events);
  return call.json({ input_tokens: usage.promptTokens });
}

/** An event of the client's stream. */
type MessageEventBody = { readonly type: string } & Readonly<Record<string, unknown>>;

/** Builds a message, or the events of its stream, from the model's events. */
class MessageBuilder {
  readonly message: MessageObject;
  /** The open block, and the JSON of a call's arguments so far. */
  #open: { readonly block: MessageBlock; json: string } | undefined;
  #hasStarted = false;

  constructor({ id, model }: { readonly id: string; readonly model: string }) {
    this.message = {
      id,
      type: "message",
      role: "assistant",
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: {
        input_tokens: 0,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 0,
      },
    };
  }

  /** Takes the next event of the model. @returns the client's events for it. */
  push(event: ChatEvent): MessageEventBody[] {
    switch (event.type) {
      case "start":
        this.message.usage.input_tokens = event.promptTokens;
        return [];
      case "scheduled":
        this.#countCached(event.cachedTokens);
        return this.#start();
      case "admitted":
      case "prompt":
        return [];
      case "delta":
        return [
          ...this.#start(),
          ...this.#pushThought(event.reasoning ?? ""),
          ...this.#pushText(event.text),
          ...(event.toolCalls ?? []).flatMap((call) => this.#pushCall(call)),
        ];
      case "finish": {
        const { reason, stopSequence } = event;
        this.message.stop_reason = reason === "tool_calls"
          ? "tool_use"
          : reason === "length"
          ? "max_tokens"
          : stopSequence === undefined
          ? "end_turn"
          : "stop_sequence";
        this.message.stop_sequence = stopSequence ?? null;
        return this.#start();
      }
      case "done":
        return this.#finish(event.usage);
      case "error":
        return [toAnthropicError(HearthError.fromWire(event.error))];
    }
  }

  /**
   * Returns the events that begin a stream, at its first call. Call it when it is known how much of the prompt was
   * cached, because these events report that.
   */
  #start(): MessageEventBody[] {
    if (this.#hasStarted) return [];
    this.#hasStarted = true;
    return [{ type: "message_start", message: structuredClone(this.message) }, { type: "ping" }];
  }

  /** Moves the prompt's cached tokens from the count of input tokens to a count of their own. */
  #countCached(numTokens: number): void {
    const { usage } = this.message;
    usage.input_tokens += usage.cache_read_input_tokens - numTokens;
    usage.cache_read_input_tokens = numTokens;
  }

  #pushThought(thinking: string): MessageEventBody[] {
    if (thinking === "") return [];
    const [block, events] = this.#openBlock("thinking", {
      type: "thinking",
      thinking: "",
      signature: "",
    });
    block.thinking += thinking;
    return [...events, this.#delta({ type: "thinking_delta", thinking })];
  }

  #pushText(text: string): MessageEventBody[] {
    if (text === "") return [];
    const [block, events] = this.#openBlock("text", { type: "text", text: "" });
    block.text += text;
    return [...events, this.#delta({ type: "text_delta", text })];
  }

  #pushCall({ id, name = "", arguments: partial_json }: ToolCallDelta): MessageEventBody[] {
    const events: MessageEventBody[] = [];
    if (id !== undefined) {
      events.push(...this.#close(), this.#begin({ type: "tool_use", id, name, input: {} }));
    }
    this.#open!.json += partial_json;
    if (partial_json !== "") events.push(this.#delta({ type: "input_json_delta", partial_json }));
    return events;
  }

  #openBlock<Type extends "text" | "thinking">(
    type: Type,
    block: Extract<MessageBlock, { type: Type }>,
  ): [Extract<MessageBlock, { type: Type }>, MessageEventBody[]] {
    const open = this.#open?.block;
    if (open?.type === type) return [open as Extract<MessageBlock, { type: Type }>, []];
    return [block, [...this.#close(), this.#begin(block)]];
  }

  #begin(block: MessageBlock): MessageEventBody {
    const index = this.message.content.push(block) - 1;
    this.#open = { block, json: "" };
    return { type: "content_block_start", index, content_block: structuredClone(block) };
  }

  #delta(delta: Readonly<Record<string, unknown>>): MessageEventBody {
    return { type: "content_block_delta", index: this.message.content.length - 1, delta };
  }

  #close(): MessageEventBody[] {
    if (this.#open === undefined) return [];
    const { block, json } = this.#open;
    if (block.type === "tool_use") block.input = readInput(json);
    // Clients do not send back thinking that came without a signature.
    const signing = block.type === "thinking"
      ? [this.#delta({ type: "signature_delta", signature: block.signature })]
      : [];
    this.#open = undefined;
    return [
      ...signing,
      { type: "content_block_stop", index: this.message.content.length - 1 },
    ];
  }

  #finish(usage: Extract<ChatEvent, { type: "done" }>["usage"]): MessageEventBody[] {
    const { message } = this;
    const closing = [...this.#start(), ...this.#close()];
    const { promptTokens, cachedTokens, completionTokens } = usage;
    message.usage.input_tokens = promptTokens - cachedTokens;
    message.usage.cache_read_input_tokens = cachedTokens;
    message.usage.output_tokens = completionTokens;
    const { stop_reason, stop_sequence } = message;
    return [
      ...closing,
      { type: "message_delta", delta: { stop_reason, stop_sequence }, usage: message.usage },
      { type: "message_stop" },
    ];
  }
}

/** Parses a call's arguments. If they are not a JSON object (cut off, or unconstrained), they are passed on as text. */
function readInput(json: string): Record<string, unknown> {
  try {
    const input: unknown = JSON.parse(json === "" ? "{}" : json);
    if (isRecord(input)) return input;
  } catch {
    // Passed on as text below.
  }
  return { invalid_json: json };
}
