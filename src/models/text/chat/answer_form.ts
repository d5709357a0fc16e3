/**
 * How to parse the answer to a chat task, from the model's chat template and the rendered prompt.
 *
 * @module
 */
import type { CallFormat } from "../calls/call_format.ts";
import { detectCallFormat } from "../calls/call_formats.ts";
import type { ChatTask, ToolFunction } from "../../task.ts";
import type { ChatTemplate } from "./chat_template.ts";

/** The markers around a block. */
interface ReasoningMarkers {
  readonly open: string;
  readonly close: string;
}

/** Markers of all known reasoning models. */
const MARKERS: readonly ReasoningMarkers[] = [
  // DeepSeek, Qwen, GLM, SmolLM, MiniCPM and many others
  { open: "<think>", close: "</think>" },
  // Magistral
  { open: "[THINK]", close: "[/THINK]" },
  // Gemma 4
  { open: "<|channel>thought\n", close: "<channel|>" },
  // Seed-OSS
  { open: "<seed:think>", close: "</seed:think>" },
  // MiniCPM 3
  { open: "<|thought_start|>", close: "<|thought_end|>" },
  // Command A
  { open: "<|START_THINKING|>", close: "<|END_THINKING|>" },
];

/** The markers in a chat template; `undefined` if its model does not reason. */
export function findReasoningMarkers(template: string): ReasoningMarkers | undefined {
  return MARKERS.find(({ open, close }) =>
    template.includes(open.trim()) || template.includes(close)
  );
}

/** The state at the end of a prompt. */
type ReasoningState = "may_open" | "is_open" | "is_closed";

/**
 * Whether the answer begins inside a reasoning block, may begin with one, or the prompt has closed it already.
 *
 * @param continues whether the prompt ends within a message of the assistant's.
 */
export function findReasoningState(
  prompt: string,
  { markers, continues }: { readonly markers: ReasoningMarkers; readonly continues: boolean },
): ReasoningState {
  const end = prompt.trimEnd();
  if (end.endsWith(markers.open.trimEnd())) return "is_open";
  if (end.endsWith(markers.close)) return "is_closed";
  if (!continues) return "may_open";
  return prompt.lastIndexOf(markers.open) > prompt.lastIndexOf(markers.close)
    ? "is_open"
    : "is_closed";
}

/** How to parse an answer. */
export interface AnswerForm {
  readonly reasoning?:
    | { readonly markers: ReasoningMarkers; readonly state: ReasoningState }
    | undefined;
  readonly calls?: {
    readonly format: CallFormat;
    /** The functions offered to the model. */
    readonly functions: readonly ToolFunction[];
    /** Whether to drop calls. */
    readonly isIgnored: boolean;
    /** Whether there may be more than one; true if absent. */
    readonly isParallel?: boolean | undefined;
  } | undefined;
}

/** @param prompt the rendered prompt. */
export function detectAnswerForm(
  { prompt: options, raw, tools }: ChatTask,
  { template, prompt }: { readonly template: ChatTemplate | undefined; readonly prompt: string },
): AnswerForm {
  if (template === undefined || raw !== undefined) return {};
  const markers = findReasoningMarkers(template.source);
  const continues = options?.continuesFinalMessage === true;
  return {
    reasoning: markers && { markers, state: findReasoningState(prompt, { markers, continues }) },
    calls: tools && tools.functions.length > 0
      ? {
        format: detectCallFormat(template.source),
        functions: tools.functions,
        isIgnored: tools.choice === "none",
        isParallel: tools.isParallel,
      }
      : undefined,
  };
}

/** Special tokens that parsing needs as text. */
export function listMarkers({ reasoning, calls }: AnswerForm): string[] {
  return [
    ...reasoning === undefined ? [] : [reasoning.markers.open, reasoning.markers.close],
    ...calls?.format.markers ?? [],
  ];
}
