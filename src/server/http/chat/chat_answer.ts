/**
 * Converts the worker's events to a chat completion, or to the chunks of its stream, and puts the model's reasoning
 * where the request wants it.
 *
 * @module
 */
import {
  type ChatChoice,
  type ChatChunk,
  type ChatCompletion,
  type ChatDelta,
  type ChatMessage,
  type ChoiceLogprob,
  type CompletionHead,
  type FinishReason,
  makeChatCompletion,
  makeDeltaChunk,
  makeFinishChunk,
  makeRunningUsage,
  makeUsageChunk,
} from "../../../wire/chat_response.ts";
import { makePromptLogprobs } from "../../../wire/chat_request.ts";
import type {
  ChatEvent,
  ChatFinishReason,
  ChosenLogprob,
  TokenLogprob,
  TokenUsage,
  ToolCallDelta,
} from "../../../models/task.ts";
import { requireSuccess } from "../../session/task_stream.ts";
import { formatErrorEvent, formatEvent } from "../sse.ts";
import type { ChatRequest } from "../../../wire/chat_request.ts";
import { hidesReasoning } from "../../../wire/spellings.ts";
import type { ReasoningField } from "../../../base/config.ts";

const DONE = formatEvent("[DONE]");

interface AnswerOptions {
  readonly head: CompletionHead;
  readonly reasoningPosition: ReasoningPosition;
  /** Whether a tool call is reported as `function_call`, OpenAI's older field. */
  readonly wantsFunctionCall: boolean;
}

/** What has been received of a choice. */
class ChoiceParts {
  text = "";
  reasoning = "";
  readonly toolCalls: { id: string; name: string; arguments: string }[] = [];
  readonly logprobs: ChoiceLogprob[] = [];
  reason: ChatFinishReason = "stop";

  add({ text, reasoning = "", toolCalls = [], logprobs = [] }: DeltaEvent): void {
    this.text += text;
    this.reasoning += reasoning;
    this.logprobs.push(...logprobs.map(toChoiceLogprob));
    for (const { index, id = "", name = "", arguments: json } of toolCalls) {
      const call = this.toolCalls[index] ??= { id, name, arguments: "" };
      call.arguments += json;
    }
  }

  toMessage({ reasoningPosition, wantsFunctionCall }: AnswerOptions): ChatMessage {
    const calls = this.toolCalls.map(({ id, ...called }) => ({
      id,
      type: "function" as const,
      function: called,
    }));
    const { content = "", ...reasoning } = placeReasoning(this, reasoningPosition);
    const [first] = calls;
    return {
      role: "assistant",
      content: content === "" && calls.length > 0 ? null : content,
      ...reasoning,
      ...(calls.length > 0 && !wantsFunctionCall && { tool_calls: calls }),
      ...(first !== undefined && wantsFunctionCall && { function_call: first.function }),
    };
  }
}

type DeltaEvent = Extract<ChatEvent, { type: "delta" }>;

/** Reads all events and builds the completion. @throws {HearthError} the error of an error event. */
export async function completeChat(
  events: AsyncIterable<ChatEvent>,
  options: AnswerOptions & {
    /** Number of choices. */
    readonly n: number;
    /** Whether log-probabilities are requested. */
    readonly hasLogprobs: boolean;
    /** How many of the most likely tokens are reported for each token of the prompt. If absent, the prompt is not scored. */
    readonly numPromptTop?: number | undefined;
  },
): Promise<ChatCompletion> {
  const { head, n, hasLogprobs, numPromptTop } = options;
  let promptScores: ChatCompletion["prompt_logprobs"];
  let usage!: TokenUsage;
  const all = Array.from({ length: n }, () => new ChoiceParts());
  for await (const event of requireSuccess(events)) {
    if (event.type === "prompt") promptScores = makePromptLogprobs(event.tokens, numPromptTop ?? 0);
    if (event.type === "delta") all[event.index]!.add(event);
    if (event.type === "finish") all[event.index]!.reason = event.reason;
    if (event.type === "done") usage = event.usage;
  }
  const choices = all.map((parts, index): ChatChoice => ({
    index,
    message: parts.toMessage(options),
    finish_reason: toFinishReason(parts.reason, options),
    logprobs: hasLogprobs ? { content: parts.logprobs } : null,
  }));
  return makeChatCompletion(head, {
    choices,
    usage,
    ...(promptScores !== undefined && { prompt_logprobs: promptScores }),
  });
}

/** Creates the function that turns the worker's events, in order, into the client's events. */
export function createChatFormat(
  options: AnswerOptions & {
    readonly includeUsage: boolean;
    /** Whether each chunk carries the usage so far. */
    readonly hasRunningUsage: boolean;
  },
): (event: ChatEvent) => string {
  const { head, includeUsage, hasRunningUsage, reasoningPosition } = options;
  const begun = new Set<number>();
  /** The placer of each choice, by the choice's index. */
  const placers = new Map<number, ReasoningPlacer>();
  let promptTokens = 0;
  const format = (chunk: ChatChunk, numTokens = 0) => {
    const usage = hasRunningUsage && { usage: makeRunningUsage(promptTokens, numTokens) };
    return formatEvent(JSON.stringify({ ...chunk, ...usage }));
  };
  const write = (
    { index, numTokens }: { readonly index: number; readonly numTokens?: number | undefined },
    { delta, logprobs }: {
      readonly delta: ChatDelta;
      readonly logprobs?: readonly ChosenLogprob[] | undefined;
    },
  ) => {
    const role = begun.has(index) ? {} : { role: "assistant" as const };
    begun.add(index);
    const chunk = makeDeltaChunk(head, {
      index,
      delta: { ...role, ...delta },
      logprobs: logprobs?.map(toChoiceLogprob),
    });
    return format(chunk, numTokens);
  };
  return (event) => {
    switch (event.type) {
      case "start":
        promptTokens = event.promptTokens;
        return "";
      case "admitted":
      case "scheduled":
      case "prompt":
        return "";
      case "delta": {
        const placer = placers.get(event.index) ?? new ReasoningPlacer(reasoningPosition);
        placers.set(event.index, placer);
        const delta = toDelta(event, { ...options, placer });
        const { logprobs } = event;
        // If reasoning is hidden, there may be nothing to send.
        if (Object.keys(delta).length === 0 && logprobs === undefined) return "";
        return write(event, { delta, logprobs });
      }
      case "finish": {
        const rest = placers.get(event.index)?.end().content ?? "";
        const isWritten = begun.has(event.index) && rest === "";
        const last = isWritten ? "" : write(event, { delta: { content: rest } });
        const reason = toFinishReason(event.reason, options);
        return last + format(makeFinishChunk(head, { ...event, reason }), event.numTokens);
      }
      case "error":
        return formatErrorEvent(event.error);
      case "done":
        return includeUsage
          ? formatEvent(JSON.stringify(makeUsageChunk(head, event.usage))) + DONE
          : DONE;
    }
  };
}

function toDelta(
  { text, reasoning = "", toolCalls = [] }: DeltaEvent,
  { placer, wantsFunctionCall }: Pick<AnswerOptions, "wantsFunctionCall"> & {
    readonly placer: ReasoningPlacer;
  },
): ChatDelta {
  const [call] = toolCalls;
  return {
    ...placer.place({ text, reasoning }),
    ...(call !== undefined && !wantsFunctionCall && { tool_calls: toolCalls.map(toToolCallDelta) }),
    ...(call !== undefined && wantsFunctionCall &&
      { function_call: toToolCallDelta(call).function }),
  };
}

/** Formats a delta of a call. The first delta of a call has its id and name, and the later ones have its arguments. */
function toToolCallDelta({ index, id, name, arguments: json }: ToolCallDelta) {
  return {
    index,
    ...(id !== undefined && { id, type: "function" as const }),
    function: { ...(name !== undefined && { name }), arguments: json },
  };
}

function toFinishReason(
  reason: ChatFinishReason,
  { wantsFunctionCall }: AnswerOptions,
): FinishReason {
  return reason === "tool_calls" && wantsFunctionCall ? "function_call" : reason;
}

function toTokenLogprob({ token, logprob, bytes }: TokenLogprob) {
  return { token, logprob, bytes: [...bytes] };
}

function toChoiceLogprob(chosen: ChosenLogprob): ChoiceLogprob {
  return { ...toTokenLogprob(chosen), top_logprobs: chosen.top.map(toTokenLogprob) };
}

/** The position of the model's reasoning in a message: a field of its own, between two tags in the text, or nowhere. */
type ReasoningPosition = ReasoningField | "content" | "hidden";

/** The fields of a message, or of a delta, that hold text and reasoning. */
type Placed = Partial<Readonly<Record<ReasoningField | "content", string>>>;

interface Written {
  readonly text: string;
  readonly reasoning: string;
}

const OPEN = "<think>\n";
const CLOSE = "\n</think>\n\n";

/** Chooses the position that a request asks for by any server's fields, or else `usual`. */
export function chooseReasoningPosition(
  request: ChatRequest,
  usual: ReasoningField,
): ReasoningPosition {
  const { include_reasoning: includes, reasoning_format: format } = request;
  if (includes === false || format === "hidden" || hidesReasoning(request)) return "hidden";
  const isText = format === "none" || format === "raw" || request.separate_reasoning === false;
  return isText ? "content" : usual;
}

/** Puts the text and the reasoning of a whole message into its fields. */
function placeReasoning({ text, reasoning }: Written, position: ReasoningPosition): Placed {
  if (reasoning === "" || position === "hidden") return { content: text };
  if (position === "content") return { content: OPEN + reasoning + CLOSE + text };
  return { content: text, [position]: reasoning };
}

/** Puts text and reasoning into the fields of a message, delta by delta. */
class ReasoningPlacer {
  readonly #position: ReasoningPosition;
  /** Whether the tag in the text is still open. */
  #isOpen = false;

  constructor(position: ReasoningPosition) {
    this.#position = position;
  }

  /** Takes the next delta. @returns the fields to which it adds something. */
  place({ text, reasoning }: Written): Placed {
    if (this.#position === "content") return toContent(this.#mark(reasoning) + this.#unmark(text));
    const isShown = reasoning !== "" && this.#position !== "hidden";
    return { ...toContent(text), ...(isShown && { [this.#position]: reasoning }) };
  }

  /** Ends the message. @returns the closing tag if the message ended within the reasoning. */
  end(): Placed {
    return this.#isOpen ? toContent(this.#close()) : {};
  }

  #mark(reasoning: string): string {
    if (reasoning === "" || this.#isOpen) return reasoning;
    this.#isOpen = true;
    return OPEN + reasoning;
  }

  #unmark(text: string): string {
    return text !== "" && this.#isOpen ? this.#close() + text : text;
  }

  #close(): string {
    this.#isOpen = false;
    return CLOSE;
  }
}

/**
 * Puts text into `content`, unless it is empty. A delta may have no text, only log-probabilities of markup, and clients
 * would take an empty `content` for the start of the answer.
 */
function toContent(text: string): Placed {
  return text === "" ? {} : { content: text };
}
