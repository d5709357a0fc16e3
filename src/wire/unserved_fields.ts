/**
 * Known fields that are not supported. A field that would change the meaning of the response is refused. A field that
 * tunes sampling, or how the response is computed, is ignored with a warning.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";

/**
 * What to use instead of a field, by the field's name. A value that changes nothing (`null`, `false`, 0, an empty list)
 * is accepted.
 */
type Unserved = Readonly<Record<string, string>>;

/** Fields that are refused, and fields that are ignored, in one kind of request. */
interface Fields {
  readonly refused: Unserved;
  readonly ignored: Unserved;
}

/** Fields refused in requests that are answered with text. */
const REFUSED_BY_TEXT: Unserved = {
  // OpenAI's fields
  audio: "/audio/speech",
  // vLLM's
  bad_words: "logit_bias",
  allowed_token_ids: "logit_bias",
  truncate_prompt_tokens: "a prompt that fits",
  chat_template: "the model's own template",
  add_special_tokens: "/completions",
  structural_tag: "structured_outputs, or tools",
  documents: "documents within messages",
  echo: "continue_final_message",
  return_token_ids: "the text",
  return_tokens_as_token_ids: "the text",
  logits_processors: "logit_bias",
  // SGLang's
  regex: "structured_outputs.regex",
  ebnf: "grammar, in GBNF",
  stop_regex: "stop",
  no_stop_trim: "include_stop_str_in_output",
  lora_path: "the loaded model",
  custom_logit_processor: "logit_bias",
  return_hidden_states: "the text",
  // llama.cpp's
  return_tokens: "the text",
  lora: "the loaded model",
};

/** Fields ignored in requests that are answered with text. */
const IGNORED_BY_TEXT: Unserved = {
  // OpenAI's fields
  web_search_options: "a search tool of your own",
  // vLLM's
  best_of: "n",
  use_beam_search: "sampling",
  thinking_token_budget: "max_tokens, or reasoning_effort",
  mm_processor_kwargs: "the model's own settings",
  media_io_kwargs: "the model's own settings",
  guided_whitespace_pattern: "a grammar",
  repetition_detection: "max_tokens",
  // Fields of llama.cpp and others
  t_max_predict_ms: "max_tokens",
  thinking_budget: "max_tokens, or reasoning_effort",
  thinking_budget_tokens: "max_tokens, or reasoning_effort",
  dynatemp_range: "temperature",
  typical_p: "top_p",
  tfs_z: "top_p",
  top_a: "min_p",
  mirostat: "temperature",
  xtc_probability: "temperature",
};

const TEXT: Fields = { refused: REFUSED_BY_TEXT, ignored: IGNORED_BY_TEXT };

/** Fields refused and ignored in the Responses API: those of chats, and chat fields that have other names there. */
const RESPONSE: Fields = {
  refused: {
    ...REFUSED_BY_TEXT,
    response_format: "text.format",
    logprobs: "top_logprobs",
    functions: "tools",
    n: "one request per answer",
  },
  ignored: IGNORED_BY_TEXT,
};

/** Fields refused and ignored in Anthropic's API. */
const MESSAGE: Fields = {
  refused: {
    ...REFUSED_BY_TEXT,
    stop: "stop_sequences",
    response_format: "output_config.format",
    logprobs: "/chat/completions",
    functions: "tools",
    n: "one request per answer",
  },
  ignored: {
    ...IGNORED_BY_TEXT,
    max_completion_tokens: "max_tokens",
    reasoning_effort: "thinking, and output_config.effort",
  },
};

/** Chat fields, for endpoints that answer `messages` with a file. */
const FILE: Fields = {
  refused: {
    n: "one request per answer",
    logprobs: "a language model",
    tools: "a language model",
    functions: "a language model",
  },
  ignored: {
    stop: "a shorter input",
    max_tokens: "a shorter input",
    max_completion_tokens: "a shorter input",
  },
};

const IMAGE: Fields = {
  refused: {
    ...FILE.refused,
    stream: "false",
    // OpenAI's fields for images
    response_format: "a form, which is answered with a PNG file",
    output_format: "png",
    size: "an image of the wanted size",
    mask: "mask_only, or an image without one",
  },
  ignored: FILE.ignored,
};

/** Fields of requests that are answered with vectors or scores. */
const NUMBERS: Fields = {
  refused: {
    // TEI, vLLM
    chat_template: "the model's own template",
    messages: "plain texts",
    // Infinity, NIM, Jina
    modality: "text",
    images: "texts",
    image: "texts",
    image_url: "texts",
    instruct: "instruction",
    // Rarely sent, and never harmless
    pooling: "the model's own pooling",
    pooling_type: "the model's own pooling",
  },
  ignored: {
    mm_processor_kwargs: "the model's own settings",
    max_chunks_per_doc: "max_tokens_per_doc; a document is scored as a whole",
    max_chunk_per_doc: "max_tokens_per_doc; a document is scored as a whole",
    overlap_tokens: "max_tokens_per_doc; a document is scored as a whole",
  },
};

const EMBEDDING: Fields = {
  refused: {
    ...NUMBERS.refused,
    // Jina
    late_chunking: "a separate input for each text",
    return_multivector: "one vector per text",
    // vLLM's
    embed_dtype: "float32",
    endianness: "little",
    // Prompts and instructions, as other APIs name them
    prompt: "prompt_name, or the text with its prompt",
    instruction: "prompt_name, or the text with its instruction",
    query_instruction: "input_type query, or the text with its instruction",
    instruct: "prompt_name, or the text with its instruction",
    texts: "input, or /v2/embed",
    // Google, Nomic, DashScope
    task_type: "input_type, or task",
    taskType: "input_type, or task",
    text_type: "input_type",
    dimensionality: "dimensions",
    outputDimensionality: "dimensions",
    output_dimensionality: "dimensions",
    long_text_mode: "truncate",
    // Fields of Cohere, and of servers for BGE-M3
    embedding_types: "embedding_type, or /v2/embed",
    output_type: "dense vectors",
    return_sparse: "dense vectors",
    return_colbert_vecs: "one vector per text",
  },
  ignored: NUMBERS.ignored,
};

const SCORE: Fields = {
  refused: {
    ...NUMBERS.refused,
    text_pairs: "text_1 and text_2",
    queries: "text_1",
    items: "text_2",
    data_1: "text_1",
    data_2: "text_2",
    softmax: "raw_scores",
    normalize: "raw_scores",
    instruction: "/rerank",
  },
  ignored: NUMBERS.ignored,
};

const RERANK: Fields = {
  refused: {
    ...NUMBERS.refused,
    passages: "documents",
    rank_fields: "documents as strings",
    return_embeddings: "/embeddings",
    // Mixedbread, DashScope, FlagEmbedding
    input: "documents",
    rewrite_query: "the final query",
    score_threshold: "top_n, or the scores in the results",
    normalize: "raw_scores",
  },
  ignored: NUMBERS.ignored,
};

const UNSERVED = {
  embedding: EMBEDDING,
  rerank: RERANK,
  score: SCORE,
  text: TEXT,
  response: RESPONSE,
  message: MESSAGE,
  speech: FILE,
  image: IMAGE,
} as const satisfies Readonly<Record<string, Fields>>;

/**
 * Values that change nothing, one or several for each field. Empty values, false and 0 also change nothing, except in
 * the fields listed below.
 */
const HARMLESS: Readonly<Record<string, unknown>> = {
  best_of: 1,
  embed_dtype: "float32",
  endianness: ["native", "little"],
  embedding_types: "float",
  modality: "text",
  normalize: true,
  output_type: "dense",
  max_tokens: -1,
  max_completion_tokens: -1,
  n: 1,
  thinking_budget: -1,
  thinking_budget_tokens: -1,
  output_format: "png",
  repetition_penalty: 1,
  skip_special_tokens: true,
  tfs_z: 1,
  top_k: -1,
  top_p: 1,
  typical_p: 1,
};

/** Fields for which 0 is a meaningful value. */
const ZERO_COUNTS: ReadonlySet<string> = new Set(["prompt_logprobs", "seed", "top_p"]);

/** Fields for which `false` is a meaningful value, because the default is true. */
const FALSE_COUNTS: ReadonlySet<string> = new Set(["normalize", "skip_special_tokens"]);

/** Fields for which an empty object is a meaningful value: it requests the defaults. */
const EMPTY_COUNTS: ReadonlySet<string> = new Set(["web_search_options"]);

/** Kinds of requests, named by what is requested. */
export type AnswerFamily = keyof typeof UNSERVED;

/**
 * Checks `body` for known fields that are not supported.
 *
 * @param body the body of a JSON request, or the texts of a form.
 * @param answer the kind of response to the request.
 * @returns a warning for each field that is ignored.
 * @throws {HearthError} `invalid_value` naming the first field that is refused.
 */
export function findUnserved(body: unknown, answer: AnswerFamily = "text"): string[] {
  if (typeof body !== "object" || body === null) return [];
  const fields = body as Record<string, unknown>;
  const { refused, ignored }: Fields = UNSERVED[answer];
  const isSet = ([name]: [string, string]) =>
    Object.hasOwn(fields, name) && !changesNothing(name, fields[name]);
  const [first] = Object.entries(refused).filter(isSet);
  if (first !== undefined) throw explainUnserved(...first);
  if (answer === "text" && wantsOtherModality(fields["modalities"])) {
    throw explainUnserved("modalities", '["text"]');
  }
  return Object.entries(ignored).filter(isSet)
    .map(([name, instead]) => `${name} is ignored; use ${instead}`);
}

/** Whether a value changes nothing: it is `null`, `false`, 0, an empty list or object, or the field's default. */
export function changesNothing(name: string, value: unknown): boolean {
  if (value === 0) return !ZERO_COUNTS.has(name);
  if (value === false) return !FALSE_COUNTS.has(name);
  const isEmpty = typeof value === "object" && value !== null &&
    Object.keys(value).length === 0 && !EMPTY_COUNTS.has(name);
  const text = String(value);
  const isDefault = [HARMLESS[name]].flat().some((each) => text === String(each));
  return !value || isEmpty || text === "false" || isDefault;
}

function wantsOtherModality(modalities: unknown): boolean {
  const isText = Array.isArray(modalities) && modalities.every((each) => each === "text");
  return (modalities ?? null) !== null && !isText;
}

function explainUnserved(name: string, instead: string): HearthError {
  return new HearthError("invalid_value", `${name} is not supported; use ${instead}.`, {
    param: name,
  });
}
