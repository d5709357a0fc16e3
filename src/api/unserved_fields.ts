/**
 * Fields that would change the meaning of the answer and are not supported: they are refused, not ignored.
 *
 * @module
 */
import { HearthError } from "../errors.ts";

/** By name: what to use instead. A value that changes nothing (`null`, `false`, 0, an empty list) is accepted. */
type Unserved = Readonly<Record<string, string>>;

/** By what answers with text. */
const BY_TEXT: Unserved = {
  // OpenAI
  audio: "text answers; /audio/speech speaks",
  web_search_options: "a tool of yours that searches",
  // vLLM
  best_of: "n",
  use_beam_search: "sampling",
  bad_words: "logit_bias",
  allowed_token_ids: "logit_bias",
  truncate_prompt_tokens: "a prompt that fits",
  thinking_token_budget: "max_tokens, or reasoning_effort",
  chat_template: "the model's own template",
  add_special_tokens: "special tokens that the template writes",
  mm_processor_kwargs: "the model's own settings",
  media_io_kwargs: "the model's own settings",
  guided_whitespace_pattern: "a grammar",
  structural_tag: "structured_outputs, or tools",
  repetition_detection: "max_tokens",
  documents: "documents within messages",
  echo: "continue_final_message",
  return_token_ids: "text",
  return_tokens_as_token_ids: "text",
  logits_processors: "logit_bias",
  // SGLang
  regex: "structured_outputs.regex",
  ebnf: "grammar, in GBNF",
  stop_regex: "stop",
  no_stop_trim: "include_stop_str_in_output",
  separate_reasoning: "include_reasoning",
  lora_path: "the loaded model",
  custom_logit_processor: "logit_bias",
  return_hidden_states: "text",
  // llama.cpp and others
  n_predict: "max_tokens",
  n_probs: "logprobs and top_logprobs",
  t_max_predict_ms: "max_tokens",
  thinking_budget_tokens: "max_tokens, or reasoning_effort",
  reasoning_format: '"auto", and include_reasoning',
  return_tokens: "text",
  lora: "the loaded model",
  repeat_penalty: "repetition_penalty, which is about all tokens so far, not the last 64",
  dynatemp_range: "temperature",
  top_n_sigma: "min_p",
  typical_p: "top_p",
  tfs_z: "top_p",
  top_a: "min_p",
  mirostat: "temperature",
  dry_multiplier: "frequency_penalty",
  xtc_probability: "temperature",
};

/** Fields of chat that other families of the API call otherwise; the services that they come from refuse them too. */
const BY_RESPONSES: Unserved = {
  ...BY_TEXT,
  max_tokens: "max_output_tokens",
  max_completion_tokens: "max_output_tokens",
  response_format: "text.format",
  reasoning_effort: "reasoning.effort",
  logprobs: "top_logprobs",
  functions: "tools",
  n: "a request for each answer",
};

const BY_MESSAGES: Unserved = {
  ...BY_TEXT,
  max_completion_tokens: "max_tokens",
  stop: "stop_sequences",
  response_format: "output_config.format",
  reasoning_effort: "thinking, and output_config.effort",
  logprobs: "no log-probabilities",
  functions: "tools",
  n: "a request for each answer",
};

/** Fields of chat, by what answers its `messages` with a file. */
const BY_FILES: Unserved = {
  n: "a request for each answer",
  stop: "no end before that of the input",
  max_tokens: "no limit",
  max_completion_tokens: "no limit",
  logprobs: "no text of an answer",
  tools: "no functions to call",
  functions: "no functions to call",
};

const UNSERVED = {
  text: BY_TEXT,
  response: BY_RESPONSES,
  message: BY_MESSAGES,
  speech: BY_FILES,
  image: {
    ...BY_FILES,
    stream: "an answer in one piece",
    // OpenAI's fields of images
    response_format: "an answer in JSON, or in PNG to a form",
    output_format: "png",
    size: "the size of the image",
    mask: "mask_only, or an image without one",
  },
} as const satisfies Readonly<Record<string, Unserved>>;

/** Values of these fields, one or several, that change nothing, besides those that are empty, false or 0. */
const HARMLESS: Readonly<Record<string, unknown>> = {
  best_of: 1,
  max_tokens: -1,
  max_completion_tokens: -1,
  n: 1,
  n_predict: -1,
  thinking_budget_tokens: -1,
  output_format: "png",
  reasoning_format: ["auto", "deepseek", "parsed"],
  repeat_penalty: 1,
  repetition_penalty: 1,
  separate_reasoning: true,
  skip_special_tokens: true,
  tfs_z: 1,
  top_k: -1,
  top_n_sigma: -1,
  top_p: 1,
  typical_p: 1,
};

/** Fields of which 0 is a value like any other. */
const ZERO_COUNTS: ReadonlySet<string> = new Set(["prompt_logprobs", "seed", "top_p"]);

/** Fields of which `false` is: the default is true. */
const FALSE_COUNTS: ReadonlySet<string> = new Set(["separate_reasoning", "skip_special_tokens"]);

/** Fields of which an empty object is: it asks for the defaults. */
const EMPTY_COUNTS: ReadonlySet<string> = new Set(["web_search_options"]);

/**
 * @param body of a request in JSON, or the texts of a form.
 * @param answer what it is answered with.
 * @throws {HearthError} `invalid_value` naming the first unsupported field of `body`.
 */
export function requireServed(body: unknown, answer: keyof typeof UNSERVED = "text"): void {
  if (typeof body !== "object" || body === null) return;
  const fields = body as Record<string, unknown>;
  for (const [name, instead] of Object.entries(UNSERVED[answer])) {
    if (!Object.hasOwn(fields, name) || changesNothing(name, fields[name])) continue;
    throw unserved(name, instead);
  }
  if (answer !== "text" || !Object.hasOwn(fields, "modalities")) return;
  const { modalities } = fields;
  const isText = Array.isArray(modalities) && modalities.every((each) => each === "text");
  if ((modalities ?? null) !== null && !isText) throw unserved("modalities", '["text"]');
}

/** Whether a field's value is that of an absent field: nothing, `false`, 0, an empty list or object, or its default. */
export function changesNothing(name: string, value: unknown): boolean {
  if (value === 0) return !ZERO_COUNTS.has(name);
  if (value === false) return !FALSE_COUNTS.has(name);
  const isEmpty = typeof value === "object" && value !== null &&
    Object.keys(value).length === 0 && !EMPTY_COUNTS.has(name);
  const text = String(value);
  const isDefault = [HARMLESS[name]].flat().some((each) => text === String(each));
  return !value || isEmpty || text === "false" || isDefault;
}

function unserved(name: string, instead: string): HearthError {
  return new HearthError("invalid_value", `${name} is not served; want ${instead}.`, {
    param: name,
  });
}
