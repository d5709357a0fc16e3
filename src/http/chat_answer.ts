/**
 * From the worker's events to the answer of a chat completion, whole or streamed.
 *
 * @module
 */
import {
  type ChatChoice,
  type ChatCompletion,
  chatCompletion,
  type ChoiceLogprob,
  type CompletionHead,
  deltaChunk,
  finishChunk,
  usageChunk,
} from "../api/chat_response.ts";
import { nestedError } from "../api/error_body.ts";
import { HearthError } from "../errors.ts";
import type { ChatEvent, ChosenLogprob, TokenLogprob } from "../models/task.ts";
import { formatEvent } from "./sse.ts";

const DONE = formatEvent("[DONE]");

/** What the answer depends on besides the events. */
export interface AnswerOptions {
  readonly head: CompletionHead;
  /** Choices asked for. */
  readonly n: number;
  /** Whether log-probabilities were asked for. */
  readonly hasLogprobs: boolean;
}

/**
 * Reads all events and puts the completion together.
 *
 * @throws {HearthError} the one of an error event.
 */
export async function completeChat(
  events: AsyncIterable<ChatEvent>,
  { head, n, hasLogprobs }: AnswerOptions,
): Promise<ChatCompletion> {
  const texts = Array.from({ length: n }, () => [] as string[]);
  const logprobs = Array.from({ length: n }, () => [] as ChoiceLogprob[]);
  const reasons = new Map<number, ChatChoice["finish_reason"]>();
  for await (const event of events) {
    switch (event.type) {
      case "delta":
        texts[event.index]!.push(event.text);
        logprobs[event.index]!.push(...(event.logprobs ?? []).map(choiceLogprob));
        break;
      case "finish":
        reasons.set(event.index, event.reason);
        break;
      case "error":
        throw HearthError.fromWire(event.error);
      case "done": {
        const choices = texts.map((fragments, index): ChatChoice => ({
          index,
          message: { role: "assistant", content: fragments.join("") },
          finish_reason: reasons.get(index) ?? "stop",
          logprobs: hasLogprobs ? { content: logprobs[index]! } : null,
        }));
        return chatCompletion(head, { choices, usage: event.usage });
      }
    }
  }
  throw new HearthError("inference_failed", "The model ended this request without a result.");
}

/** Makes of each event what the client reads of it, in the order in which they come. */
export function createChatFormat(
  { head, includeUsage, onError }: {
    head: CompletionHead;
    includeUsage: boolean;
    /** Told of an error event, which the client sees as the last of its stream. */
    onError: (error: HearthError) => void;
  },
): (event: ChatEvent) => string {
  const begun = new Set<number>();
  const formatDelta = (index: number, content: string, logprobs?: readonly ChosenLogprob[]) => {
    const isFirst = !begun.has(index);
    begun.add(index);
    const chunk = deltaChunk(head, {
      index,
      isFirst,
      content,
      logprobs: logprobs?.map(choiceLogprob),
    });
    return formatEvent(JSON.stringify(chunk));
  };
  return (event) => {
    switch (event.type) {
      case "start":
        return "";
      case "delta":
        return formatDelta(event.index, event.text, event.logprobs);
      case "finish": {
        const role = begun.has(event.index) ? "" : formatDelta(event.index, "");
        return role + formatEvent(JSON.stringify(finishChunk(head, event)));
      }
      case "error": {
        const error = HearthError.fromWire(event.error);
        onError(error);
        return formatEvent(JSON.stringify(nestedError(error)));
      }
      case "done":
        return includeUsage
          ? formatEvent(JSON.stringify(usageChunk(head, event.usage))) + DONE
          : DONE;
    }
  };
}

function tokenLogprob({ token, logprob, bytes }: TokenLogprob) {
  return { token, logprob, bytes: [...bytes] };
}

function choiceLogprob(chosen: ChosenLogprob): ChoiceLogprob {
  return { ...tokenLogprob(chosen), top_logprobs: chosen.top.map(tokenLogprob) };
}
