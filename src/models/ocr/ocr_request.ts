/**
 * The image and text of a conversation's last user message, for models that read one image.
 *
 * @module
 */
import { HearthError } from "../../errors.ts";
import type { ChatMessage, ImagePart } from "../task.ts";

export interface OcrRequest {
  readonly image: ImagePart;
  /** Of all text parts; empty if there is none. */
  readonly text: string;
}

/** @throws {HearthError} `invalid_value` unless the last user message has exactly one image. */
export function readOcrRequest(messages: readonly ChatMessage[]): OcrRequest {
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
