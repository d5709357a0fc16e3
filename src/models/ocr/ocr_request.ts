/**
 * Requests to models that read one image and compute their answer from the model's complete text.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import type { ChatEvent, ChatMessage, ChosenLogprob, ImagePart } from "../task.ts";

/** @throws {HearthError} `invalid_value` unless the last user message has exactly one image. */
export function readOcrRequest(messages: readonly ChatMessage[]): {
  readonly image: ImagePart;
  /** The text of all text parts; empty if there are none. */
  readonly text: string;
} {
  const index = messages.findLastIndex(({ role }) => role === "user");
  const content = messages[index]?.content ?? "";
  const parts = typeof content === "string" ? [] : content;
  const [image, second] = parts.filter((part) => part.type === "image");
  if (second !== undefined) {
    throw new HearthError(
      "invalid_value",
      `${second.param}: this model reads one image at a time, and the message has another.`,
      { param: second.param },
    );
  }
  if (image === undefined) {
    const param = index < 0 ? "messages" : `messages[${index}].content`;
    throw new HearthError(
      "invalid_value",
      `${param}: this model reads images; want an image in the last user message, saw text only.`,
      { param },
    );
  }
  const texts = parts.flatMap((part) => part.type === "text" ? [part.text.trim()] : []);
  return { image, text: texts.filter((text) => text !== "").join("\n") };
}

/**
 * Passes on a completion's events, joining the deltas of each choice into one.
 *
 * @param finish turns a choice's complete text into its answer.
 */
export function joinDeltas(
  emit: (event: ChatEvent) => void,
  finish: (text: string) => string,
): (event: ChatEvent) => void {
  const texts = new Map<number, string>();
  const logprobs = new Map<number, ChosenLogprob[]>();
  return (event) => {
    if (event.type === "delta") {
      const { index } = event;
      texts.set(index, (texts.get(index) ?? "") + event.text);
      if (event.logprobs === undefined) return;
      logprobs.set(index, [...logprobs.get(index) ?? [], ...event.logprobs]);
      return;
    }
    if (event.type === "finish") {
      const { index, numTokens } = event;
      const text = finish(texts.get(index) ?? "");
      emit({ type: "delta", index, text, logprobs: logprobs.get(index), numTokens });
    }
    emit(event);
  };
}
