/**
 * Holds a completion's text back until it is complete, for answers computed from all of it.
 *
 * @module
 */
import type { ChatEvent, ChosenLogprob } from "../task.ts";

/**
 * Passes a completion's events on, with one delta for each choice.
 *
 * @param finish converts a choice's complete text to its answer.
 */
export function holdBack(
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
      const { index } = event;
      const text = finish(texts.get(index) ?? "");
      emit({ type: "delta", index, text, logprobs: logprobs.get(index) });
    }
    emit(event);
  };
}
