/**
 * Answers a chat completion with the worker's events, whole or streamed, and places the model's reasoning in it.
 *
 * @module
 */
import {
  type ChatChoice,
  type ChatChunk,
  type ChatCompletion,
  chatCompletion,
  type ChatDelta,
  type ChatMessage,
  type ChoiceLogprob,
  type CompletionHead,
  deltaChunk,
  finishChunk,
  type FinishReason,
  runningUsage,
  usageChunk,
} from "../../../wire/chat_response.ts";
import { promptLogprobs } from "../../../wire/chat_request.ts";
import type {
  ChatEvent,
  ChatFinishReason,
  ChosenLogprob,
  TokenLogprob,
  TokenUsage,
  ToolCallDelta,
} from "../../../models/task.ts";
import { successes } from "../../session/task_stream.ts";
import { formatErrorEvent, formatEvent } from "../sse.ts";
import type { ChatRequest } from "../../../wire/chat_request.ts";
import { hidesReasoning } from "../../../wire/spellings.ts";
import type { ReasoningField } from "../../../base/config.ts";

const DONE = formatEvent("[DONE]");

interface AnswerOptions {
  readonly head: CompletionHead;
  readonly thoughtPosition: ThoughtPosition;
  /** Whether a tool call is reported as `function_call`, OpenAI's older field. */
  readonly wantsFunctionCall: boolean;
}

/** The parts of a choice received so far. */
class ChoiceParts {
  text = "";
  reasoning = "";
  readonly toolCalls: { id: string; name: string; arguments: string }[] = [];
  readonly logprobs: ChoiceLogprob[] = [];
  reason: ChatFinishReason = "stop";

  add({ text, reasoning = "", toolCalls = [], logprobs = [] }: DeltaEvent): void {
    this.text += text;
    this.reasoning += reasoning;
    this.logprobs.push(...logprobs.map(choiceLogprob));
    for (const { index, id = "", name = "", arguments: json } of toolCalls) {
      const call = this.toolCalls[index] ??= { id, name, arguments: "" };
      call.arguments += json;
    }
  }

  message({ thoughtPosition, wantsFunctionCall }: AnswerOptions): ChatMessage {
    const calls = this.toolCalls.map(({ id, ...called }) => ({
      id,
      type: "function" as const,
      function: called,
    }));
    const { content = "", ...thought } = placeThought(this, thoughtPosition);
    const [first] = calls;
    return {
      role: "assistant",
      content: content === "" && calls.length > 0 ? null : content,
      ...thought,
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
    /** Number of most likely tokens reported for each token of the prompt. If absent, the prompt is not scored. */
    readonly numPromptTop?: number | undefined;
  },
): Promise<ChatCompletion> {
  const { head, n, hasLogprobs, numPromptTop } = options;
  let ofPrompt: ChatCompletion["prompt_logprobs"];
  let usage!: TokenUsage;
  const all = Array.from({ length: n }, () => new ChoiceParts());
  for await (const event of successes(events)) {
    if (event.type === "prompt") ofPrompt = promptLogprobs(event.tokens, numPromptTop ?? 0);
    if (event.type === "delta") all[event.index]!.add(event);
    if (event.type === "finish") all[event.index]!.reason = event.reason;
    if (event.type === "done") usage = event.usage;
  }
  const choices = all.map((parts, index): ChatChoice => ({
    index,
    message: parts.message(options),
    finish_reason: finishReason(parts.reason, options),
    logprobs: hasLogprobs ? { content: parts.logprobs } : null,
  }));
  return chatCompletion(head, {
    choices,
    usage,
    ...(ofPrompt !== undefined && { prompt_logprobs: ofPrompt }),
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
  const { head, includeUsage, hasRunningUsage, thoughtPosition } = options;
  const begun = new Set<number>();
  /** The parts of text and reasoning, by choice. */
  const thoughts = new Map<number, ThoughtParts>();
  let promptTokens = 0;
  const format = (chunk: ChatChunk, numTokens = 0) => {
    const usage = hasRunningUsage && { usage: runningUsage(promptTokens, numTokens) };
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
    const chunk = deltaChunk(head, {
      index,
      delta: { ...role, ...delta },
      logprobs: logprobs?.map(choiceLogprob),
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
        const thought = thoughts.get(event.index) ?? new ThoughtParts(thoughtPosition);
        thoughts.set(event.index, thought);
        const delta = toDelta(event, { ...options, thought });
        const { logprobs } = event;
        // With hidden reasoning there may be nothing to send.
        if (Object.keys(delta).length === 0 && logprobs === undefined) return "";
        return write(event, { delta, logprobs });
      }
      case "finish": {
        const rest = thoughts.get(event.index)?.end().content ?? "";
        const isWritten = begun.has(event.index) && rest === "";
        const last = isWritten ? "" : write(event, { delta: { content: rest } });
        const reason = finishReason(event.reason, options);
        return last + format(finishChunk(head, { ...event, reason }), event.numTokens);
      }
      case "error":
        return formatErrorEvent(event.error);
      case "done":
        return includeUsage
          ? formatEvent(JSON.stringify(usageChunk(head, event.usage))) + DONE
          : DONE;
    }
  };
}

function toDelta(
  { text, reasoning = "", toolCalls = [] }: DeltaEvent,
  { thought, wantsFunctionCall }: Pick<AnswerOptions, "wantsFunctionCall"> & {
    readonly thought: ThoughtParts;
  },
): ChatDelta {
  const [call] = toolCalls;
  return {
    ...thought.next({ text, reasoning }),
    ...(call !== undefined && !wantsFunctionCall && { tool_calls: toolCalls.map(toolCallDelta) }),
    ...(call !== undefined && wantsFunctionCall && { function_call: toolCallDelta(call).function }),
  };
}

/** Formats part of a call: the first delta has its name, and its arguments follow. */
function toolCallDelta({ index, id, name, arguments: json }: ToolCallDelta) {
  return {
    index,
    ...(id !== undefined && { id, type: "function" as const }),
    function: { ...(name !== undefined && { name }), arguments: json },
  };
}

function finishReason(
  reason: ChatFinishReason,
  { wantsFunctionCall }: AnswerOptions,
): FinishReason {
  return reason === "tool_calls" && wantsFunctionCall ? "function_call" : reason;
}

function tokenLogprob({ token, logprob, bytes }: TokenLogprob) {
  return { token, logprob, bytes: [...bytes] };
}

function choiceLogprob(chosen: ChosenLogprob): ChoiceLogprob {
  return { ...tokenLogprob(chosen), top_logprobs: chosen.top.map(tokenLogprob) };
}

/** The position of the model's reasoning in an answer: in its own field, in the text between two tags, or nowhere. */
type ThoughtPosition = ReasoningField | "content" | "hidden";

/** The fields of a message, or of a delta, that hold text and reasoning. */
type Placed = Partial<Readonly<Record<ReasoningField | "content", string>>>;

interface Written {
  readonly text: string;
  readonly reasoning: string;
}

const OPEN = "<think>\n";
const CLOSE = "\n</think>\n\n";

/** Chooses the position that a request asks for, under any server's name for that option, or else `usual`. */
export function chooseThoughtPosition(
  request: ChatRequest,
  usual: ReasoningField,
): ThoughtPosition {
  const { include_reasoning: includes, reasoning_format: format } = request;
  if (includes === false || format === "hidden" || hidesReasoning(request)) return "hidden";
  const isText = format === "none" || format === "raw" || request.separate_reasoning === false;
  return isText ? "content" : usual;
}

/** Puts the text and the reasoning of a whole message into its fields. */
function placeThought({ text, reasoning }: Written, place: ThoughtPosition): Placed {
  if (reasoning === "" || place === "hidden") return { content: text };
  if (place === "content") return { content: OPEN + reasoning + CLOSE + text };
  return { content: text, [place]: reasoning };
}

/** Puts text and reasoning into a message's fields, delta by delta. */
class ThoughtParts {
  readonly #place: ThoughtPosition;
  /** Whether a tag in the text is still open. */
  #isOpen = false;

  constructor(place: ThoughtPosition) {
    this.#place = place;
  }

  /** Takes the next delta. @returns the fields to which it adds something. */
  next({ text, reasoning }: Written): Placed {
    if (this.#place === "content") return toContent(this.#mark(reasoning) + this.#unmark(text));
    const hasThought = reasoning !== "" && this.#place !== "hidden";
    return { ...toContent(text), ...(hasThought && { [this.#place]: reasoning }) };
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
 * Puts text into `content`, unless it is empty: log-probabilities of markup come without text, and clients would take
 * an empty string for the start of an answer.
 */
function toContent(text: string): Placed {
  return text === "" ? {} : { content: text };
}
