/**
 * Fields that are known and not served. Those that would change the meaning of the answer are refused; those that
 * tune sampling, or how the answer is made, are passed over with a warning.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";

/** What to use instead, by name. A value that changes nothing (`null`, `false`, 0, an empty list) is accepted. */
type Unserved = Readonly<Record<string, string>>;

/** What is refused, and what is passed over, in requests of one kind. */
interface Fields {
  readonly refused: Unserved;
  readonly passedOver: Unserved;
}

/** Refused by what answers with text. */
const REFUSED_BY_TEXT: Unserved = {
  // OpenAI
  audio: "text answers; /audio/speech speaks",
  // vLLM
  bad_words: "logit_bias",
  allowed_token_ids: "logit_bias",
  truncate_prompt_tokens: "a prompt that fits",
  chat_template: "the model's own template",
  add_special_tokens: "special tokens that the template writes",
  structural_tag: "structured_outputs, or tools",
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
  lora_path: "the loaded model",
  custom_logit_processor: "logit_bias",
  return_hidden_states: "text",
  // llama.cpp
  return_tokens: "text",
  lora: "the loaded model",
};

/** Passed over by what answers with text. */
const PASSED_OVER_BY_TEXT: Unserved = {
  // OpenAI
  web_search_options: "a tool of yours that searches",
  // vLLM
  best_of: "n",
  use_beam_search: "sampling",
  thinking_token_budget: "max_tokens, or reasoning_effort",
  mm_processor_kwargs: "the model's own settings",
  media_io_kwargs: "the model's own settings",
  guided_whitespace_pattern: "a grammar",
  repetition_detection: "max_tokens",
  // llama.cpp and others
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

const TEXT: Fields = { refused: REFUSED_BY_TEXT, passedOver: PASSED_OVER_BY_TEXT };

/** Fields of chat that other families of the API call otherwise; the services that they come from refuse them too. */
const RESPONSE: Fields = {
  refused: {
    ...REFUSED_BY_TEXT,
    response_format: "text.format",
    logprobs: "top_logprobs",
    functions: "tools",
    n: "a request for each answer",
  },
  passedOver: PASSED_OVER_BY_TEXT,
};

const MESSAGE: Fields = {
  refused: {
    ...REFUSED_BY_TEXT,
    stop: "stop_sequences",
    response_format: "output_config.format",
    logprobs: "no log-probabilities",
    functions: "tools",
    n: "a request for each answer",
  },
  passedOver: {
    ...PASSED_OVER_BY_TEXT,
    max_completion_tokens: "max_tokens",
    reasoning_effort: "thinking, and output_config.effort",
  },
};

/** Fields of chat, for what answers its `messages` with a file. */
const FILE: Fields = {
  refused: {
    n: "a request for each answer",
    logprobs: "no text of an answer",
    tools: "no functions to call",
    functions: "no functions to call",
  },
  passedOver: {
    stop: "no end before that of the input",
    max_tokens: "no limit",
    max_completion_tokens: "no limit",
  },
};

const IMAGE: Fields = {
  refused: {
    ...FILE.refused,
    stream: "an answer in one piece",
    // OpenAI's fields of images
    response_format: "an answer in JSON, or in PNG to a form",
    output_format: "png",
    size: "the size of the image",
    mask: "mask_only, or an image without one",
  },
  passedOver: FILE.passedOver,
};

/** Refused and passed over by what takes texts and gives numbers. */
const NUMBERS: Fields = {
  refused: {
    // TEI, vLLM
    truncation_direction: "right: texts are cut at their end",
    truncation_side: "right: texts are cut at their end",
    chat_template: "the model's own form of texts",
    messages: "the texts alone",
    // Infinity, NIM, Jina
    modality: "text",
    images: "texts",
    image: "texts",
    image_url: "texts",
    instruct: "instruction",
    // Rarely said, and never harmless
    pooling: "the model's own pooling",
    pooling_type: "the model's own pooling",
  },
  passedOver: {
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
    late_chunking: "an input for each text",
    return_multivector: "one vector of each text",
    // vLLM
    embed_dtype: "float32",
    endianness: "little",
    // What models are told, in the words of other APIs
    prompt: "prompt_name, or the text with its prompt",
    instruction: "prompt_name, or the text with its instruction",
    query_instruction: "input_type query, or the text with its instruction",
    instruct: "prompt_name, or the text with its instruction",
    inputs: "input",
    texts: "input, or /v2/embed",
    // Google, Nomic, DashScope
    task_type: "input_type, or task",
    taskType: "input_type, or task",
    text_type: "input_type",
    dimensionality: "dimensions",
    outputDimensionality: "dimensions",
    output_dimensionality: "dimensions",
    long_text_mode: "truncate",
    // Cohere, BGE-M3's servers
    embedding_types: "embedding_type, or /v2/embed",
    output_type: "dense vectors",
    return_sparse: "dense vectors",
    return_colbert_vecs: "one vector of each text",
  },
  passedOver: NUMBERS.passedOver,
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
    instruction: "/rerank, which takes one",
  },
  passedOver: NUMBERS.passedOver,
};

const RERANK: Fields = {
  refused: {
    ...NUMBERS.refused,
    texts: "documents",
    passages: "documents",
    rank_fields: "documents as strings",
    return_embeddings: "scores; /embeddings gives vectors",
    // Mixedbread, DashScope, FlagEmbedding
    input: "documents",
    rewrite_query: "the query as it is to be read",
    score_threshold: "top_n; results hold their scores",
    normalize: "raw_scores",
  },
  passedOver: NUMBERS.passedOver,
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

/** Values of these fields, one or several, that change nothing, besides those that are empty, false or 0. */
const HARMLESS: Readonly<Record<string, unknown>> = {
  best_of: 1,
  embed_dtype: "float32",
  endianness: ["native", "little"],
  embedding_types: "float",
  modality: "text",
  normalize: true,
  output_type: "dense",
  truncation_direction: ["right", "Right"],
  truncation_side: "right",
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

/** Fields of which 0 is a value like any other. */
const ZERO_COUNTS: ReadonlySet<string> = new Set(["prompt_logprobs", "seed", "top_p"]);

/** Fields of which `false` is: the default is true. */
const FALSE_COUNTS: ReadonlySet<string> = new Set(["normalize", "skip_special_tokens"]);

/** Fields of which an empty object is: it asks for the defaults. */
const EMPTY_COUNTS: ReadonlySet<string> = new Set(["web_search_options"]);

/**
 * Checks `body` for fields that are known and not served.
 *
 * @param body of a request in JSON, or the texts of a form.
 * @param answer what it is answered with.
 * @returns a warning for each field that is passed over.
 * @throws {HearthError} `invalid_value` naming the first field that is refused.
 */
export function findUnserved(body: unknown, answer: keyof typeof UNSERVED = "text"): string[] {
  if (typeof body !== "object" || body === null) return [];
  const fields = body as Record<string, unknown>;
  const { refused, passedOver }: Fields = UNSERVED[answer];
  const isSet = ([name]: [string, string]) =>
    Object.hasOwn(fields, name) && !changesNothing(name, fields[name]);
  const [first] = Object.entries(refused).filter(isSet);
  if (first !== undefined) throw unserved(...first);
  if (answer === "text" && wantsOtherModality(fields["modalities"])) {
    throw unserved("modalities", '["text"]');
  }
  return Object.entries(passedOver).filter(isSet)
    .map(([name, instead]) => `${name} is passed over; use ${instead}`);
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

function wantsOtherModality(modalities: unknown): boolean {
  const isText = Array.isArray(modalities) && modalities.every((each) => each === "text");
  return (modalities ?? null) !== null && !isText;
}

function unserved(name: string, instead: string): HearthError {
  return new HearthError("invalid_value", `${name} is not served; want ${instead}.`, {
    param: name,
  });
}
