/**
 * Finds the one piece of media that a request is about.
 *
 * @module
 */
import { isWords } from "../../wire/content_part.ts";
import type { ChatRequest } from "../../wire/chat_request.ts";
import { HearthError } from "../../base/errors.ts";
import type { ModelInfo } from "../../worker/protocol.ts";
import type { MediaPart } from "./media.ts";

/** A content part and its path in the request: `messages[0].content[1]`. */
export interface LocatedPart {
  readonly part: MediaPart;
  readonly param: string;
}

/** The kind of media that a model takes. */
type Medium = "audio" | "image";

const PLURALS: Readonly<Record<Medium, string>> = { audio: "audio", image: "images" };

/**
 * The media part of the last user message. Text parts are ignored.
 *
 * @throws {HearthError} `invalid_value` unless there is exactly one; `unsupported_by_model` for media of the other
 * kind.
 */
export function findOnlyMedia(
  messages: ChatRequest["messages"],
  { wants, info }: { readonly wants: Medium; readonly info: ModelInfo },
): LocatedPart {
  const index = messages.findLastIndex(({ role }) => role === "user");
  const content = messages[index]?.content ?? [];
  const found: LocatedPart[] = [];
  (typeof content === "string" ? [] : content).forEach((part, position) => {
    if (isWords(part)) return;
    const param = `messages[${index}].content[${position}]`;
    if (toMedium(part) !== wants) {
      throw new HearthError(
        "unsupported_by_model",
        `${param}: the loaded model ${info.id} (${info.kind}) takes ${
          PLURALS[wants]
        }, saw a part of type ${part.type}.`,
        { param },
      );
    }
    found.push({ part, param });
  });
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  const param = index < 0 ? "messages" : `messages[${index}].content`;
  throw new HearthError(
    "invalid_value",
    `${param}: want one ${wants} part in the last user message, saw ${found.length}.`,
    { param },
  );
}

/** The media kind of a part. */
export function toMedium({ type }: MediaPart): Medium | "file" {
  if (type === "file") return "file";
  return type === "image" || type === "image_url" ? "image" : "audio";
}
