/**
 * Reasoning blocks, which models write before they answer.
 *
 * @module
 */

/** The markers around a block. */
export interface ThoughtMarkers {
  readonly open: string;
  readonly close: string;
}

/** Of all known reasoning models. */
const MARKERS: readonly ThoughtMarkers[] = [
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
export function thoughtMarkersOf(template: string): ThoughtMarkers | undefined {
  return MARKERS.find(({ open, close }) =>
    template.includes(open.trim()) || template.includes(close)
  );
}

/** The state at the end of a prompt. */
export type ThoughtState = "may_open" | "is_open" | "is_closed";

/**
 * Whether the answer begins inside a reasoning block, may begin with one, or the prompt has closed it already.
 *
 * @param continues whether the prompt ends within a message of the assistant's.
 */
export function thoughtStateOf(
  prompt: string,
  { markers, continues }: { readonly markers: ThoughtMarkers; readonly continues: boolean },
): ThoughtState {
  const end = prompt.trimEnd();
  if (end.endsWith(markers.open.trimEnd())) return "is_open";
  if (end.endsWith(markers.close)) return "is_closed";
  if (!continues) return "may_open";
  return prompt.lastIndexOf(markers.open) > prompt.lastIndexOf(markers.close)
    ? "is_open"
    : "is_closed";
}
