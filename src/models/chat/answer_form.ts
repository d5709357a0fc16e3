/**
 * How to parse the answer to a chat task, from the model's chat template and the rendered prompt.
 *
 * @module
 */
import { callFormatOf } from "../calls/call_formats.ts";
import type { ChatTask } from "../task.ts";
import type { AnswerForm } from "./answer_parser.ts";
import type { ChatTemplate } from "./chat_template.ts";
import { thoughtMarkersOf, thoughtStateOf } from "./thought.ts";

/** @param prompt the rendered prompt. */
export function answerFormOf(
  { prompt: options, raw, tools }: ChatTask,
  { template, prompt }: { readonly template: ChatTemplate | undefined; readonly prompt: string },
): AnswerForm {
  if (template === undefined || raw !== undefined) return {};
  const markers = thoughtMarkersOf(template.source);
  const continues = options?.continuesFinalMessage === true;
  return {
    thought: markers && { markers, state: thoughtStateOf(prompt, { markers, continues }) },
    calls: tools && tools.functions.length > 0
      ? {
        format: callFormatOf(template.source),
        functions: tools.functions,
        isIgnored: tools.choice === "none",
      }
      : undefined,
  };
}

/** Special tokens that parsing needs as text. */
export function markersOf({ thought, calls }: AnswerForm): string[] {
  return [
    ...thought === undefined ? [] : [thought.markers.open, thought.markers.close],
    ...calls?.format.markers ?? [],
  ];
}
