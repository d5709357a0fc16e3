/**
 * The text of a speech request, and its voice.
 *
 * @module
 */
import { isWords } from "../../../wire/content_part.ts";
import type { ParsedSpeechRequest } from "../../../wire/speech_request.ts";
import { HearthError } from "../../../base/errors.ts";
import type { ModelInfo } from "../../../worker/protocol.ts";
import { type LocatedPart, toMedium } from "../only_media.ts";

/** A text and its path in the request. */
interface SpokenText {
  readonly text: string;
  readonly param: string;
  /** A recording whose voice is to be cloned. */
  readonly recording?: LocatedPart | undefined;
}

/**
 * Finds the text to speak: `input`, or the text parts of the last user message, which may also have an audio part.
 *
 * @throws {HearthError} `invalid_value` when there is no such message, more than one recording, or a voice beside one;
 * `unsupported_by_model` for images, and for recordings if the model cannot clone voices.
 */
export function findSpokenText(wish: ParsedSpeechRequest, info: ModelInfo): SpokenText {
  const { input, messages = [] } = wish;
  if (input !== undefined) return { text: input, param: "input" };
  const index = messages.findLastIndex(({ role }) => role === "user");
  const content = messages[index]?.content;
  if (content === undefined || content === null) {
    throw invalid("messages", "want a user message, saw none");
  }
  const param = `messages[${index}].content`;
  if (typeof content === "string") return { text: content, param };
  const texts: string[] = [];
  const recordings: LocatedPart[] = [];
  for (const [index, part] of content.entries()) {
    if (part.type === "text") texts.push(part.text);
    else if (!isWords(part)) recordings.push({ part, param: `${param}[${index}]` });
  }
  const [recording, another] = recordings;
  for (const each of recordings) requireRecordings(each, info);
  if (another !== undefined) {
    throw invalid(another.param, `want one recording at most, saw ${recordings.length}`);
  }
  if (recording !== undefined && wish.voice !== undefined) {
    throw invalid("voice", "want no value beside a recording, whose voice is cloned");
  }
  return { text: texts.join("\n\n"), param, recording };
}

/** @throws {HearthError} `unsupported_by_model` when the model cannot clone the voice of such a part. */
function requireRecordings(
  { part, param }: LocatedPart,
  { id, kind, noRecordings }: ModelInfo,
): void {
  const why = toMedium(part) !== "audio"
    ? `takes text and recordings, saw a part of type ${part.type}`
    : noRecordings && `cannot clone the voice of a recording: ${noRecordings}`;
  if (why === undefined) return;
  throw new HearthError(
    "unsupported_by_model",
    `${param}: the loaded model ${id} (${kind}) ${why}.`,
    { param },
  );
}

function invalid(param: string, message: string): HearthError {
  return new HearthError("invalid_value", `${param}: ${message}.`, { param });
}
