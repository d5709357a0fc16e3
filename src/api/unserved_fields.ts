/**
 * Fields that would change the meaning of the answer and are not supported: they are refused, not ignored.
 *
 * @module
 */
import { HearthError } from "../errors.ts";

/** By name: what to use instead. A value that changes nothing (`null`, `false`, 0, an empty list) is accepted. */
const UNSERVED: Readonly<Record<string, string>> = {
  // OpenAI
  audio: "text answers; /audio/speech speaks",
  web_search_options: "a tool of yours that searches",
  // vLLM
  best_of: "n",
  use_beam_search: "sampling",
  include_stop_str_in_output: "stop strings that are left out",
  bad_words: "logit_bias",
  allowed_token_ids: "logit_bias",
  truncate_prompt_tokens: "a prompt that fits",
  chat_template: "the model's own template",
  documents: "documents within messages",
  echo: "continue_final_message",
  return_token_ids: "text",
  return_tokens_as_token_ids: "text",
  logits_processors: "logit_bias",
  // llama.cpp and others
  typical_p: "top_p",
  tfs_z: "top_p",
  top_a: "min_p",
  mirostat: "temperature",
  dry_multiplier: "frequency_penalty",
  xtc_probability: "temperature",
};

/** Values of these fields that change nothing. */
const HARMLESS: Readonly<Record<string, readonly unknown[]>> = {
  best_of: [1],
  typical_p: [1],
  tfs_z: [1],
};

/** @throws {HearthError} `invalid_value` naming the first unsupported field of `body`. */
export function requireServed(body: unknown): void {
  if (typeof body !== "object" || body === null) return;
  const fields = body as Record<string, unknown>;
  for (const [name, instead] of Object.entries(UNSERVED)) {
    if (!Object.hasOwn(fields, name) || isHarmless(name, fields[name])) continue;
    throw unserved(name, instead);
  }
  if (!Object.hasOwn(fields, "modalities")) return;
  const { modalities } = fields;
  const isText = Array.isArray(modalities) && modalities.every((each) => each === "text");
  if ((modalities ?? null) !== null && !isText) throw unserved("modalities", '["text"]');
}

function isHarmless(name: string, value: unknown): boolean {
  const isEmpty = Array.isArray(value) && value.length === 0;
  return !value || isEmpty || (HARMLESS[name] ?? []).includes(value);
}

function unserved(name: string, instead: string): HearthError {
  return new HearthError("invalid_value", `${name} is not served; want ${instead}.`, {
    param: name,
  });
}
