/**
 * The form of `tokenizer.json` and `tokenizer_config.json`.
 *
 * @module
 */
import { isJson } from "../../hub/model_folder.ts";
import {
  either,
  type FieldRule,
  fields,
  FLAG,
  listRule,
  nonZero,
  TEXT,
  whole,
} from "../folder/field_rules.ts";

/** Far more ids than any vocabulary has; arrays as long as the largest id are made of them. */
const TOKEN_ID = whole(0, 2 ** 24);

const ANY: FieldRule = () => undefined;
const isText = (value: unknown) => typeof value === "string";

const STEP = fields({ type: TEXT }, { required: ["type"] });

/** Ids by their texts. */
const IDS: FieldRule = (value) => {
  for (const [text, id] of Object.entries(value as object)) {
    const fault = TOKEN_ID(id);
    if (fault !== undefined) return { ...fault, path: `[${JSON.stringify(text)}]` };
  }
  return undefined;
};

/** A text with its score. */
const PIECE = either("an array of a text and its score", [Array.isArray, ANY]);

const VOCABULARY = either(
  "an object, or an array",
  [isJson, IDS],
  [Array.isArray, listRule(PIECE)],
);

const SPECIAL_TOKEN = either(
  "a string, or an object with one",
  [isText, TEXT],
  [isJson, fields({ content: TEXT })],
);

/** `tokenizer.json`. */
export const TOKENIZER: FieldRule = fields({
  model: fields({ type: TEXT, vocab: VOCABULARY, merges: listRule(ANY) }, {
    required: ["vocab"],
  }),
  added_tokens: listRule(fields({ id: TOKEN_ID, content: TEXT }, { required: ["id", "content"] })),
  normalizer: STEP,
  pre_tokenizer: STEP,
  post_processor: STEP,
  decoder: STEP,
}, { required: ["model"] });

/** `tokenizer_config.json`. */
export const TOKENIZER_CONFIG: FieldRule = fields({
  add_bos_token: FLAG,
  add_eos_token: FLAG,
  clean_up_tokenization_spaces: FLAG,
  // Many write a number beyond all bounds for no limit.
  model_max_length: nonZero(Infinity),
  bos_token: SPECIAL_TOKEN,
  eos_token: SPECIAL_TOKEN,
  pad_token: SPECIAL_TOKEN,
  unk_token: SPECIAL_TOKEN,
  chat_template: either(
    "a string, or an array of named templates",
    [isText, TEXT],
    [Array.isArray, listRule(fields({ name: TEXT, template: TEXT }))],
    [isJson, ANY],
  ),
});
