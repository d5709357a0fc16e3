/**
 * Reads a folder's tokenizer, for models of any kind: this is all that models without chat need.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../../base/errors.ts";
import {
  isJson,
  type Json,
  locate,
  type ModelFolder,
  readOptionalJson,
  readSettings,
} from "../../hub/model_folder.ts";
import { Tokenizer } from "../../tokenizer/tokenizer.ts";
import { MAX_TOKEN_ID } from "../../tokenizer/vocabulary.ts";
import {
  either,
  type FieldRule,
  fields,
  FLAG,
  listRule,
  nonZero,
  requireFields,
  TEXT,
  whole,
} from "../folder/field_rules.ts";

/** The two files of a tokenizer, and the tokenizer itself. */
export interface TokenizerFiles {
  readonly tokenizer: Tokenizer;
  /** Content of `tokenizer.json`. */
  readonly json: Json;
  /** Content of `tokenizer_config.json`. */
  readonly config: Json;
}

/**
 * Reads `tokenizer.json` and `tokenizer_config.json`.
 *
 * @param options.lowersCase whether to convert texts to lower case before the tokenizer's own normalizer runs.
 * @throws {StartupError} when `tokenizer.json` is missing; naming the file and the field, when a value is invalid.
 */
export async function readTokenizer(
  folder: ModelFolder,
  { lowersCase = false }: { readonly lowersCase?: boolean } = {},
): Promise<TokenizerFiles> {
  const saved = await readSettings(folder, "tokenizer.json");
  const config = await readOptionalJson(folder, "tokenizer_config.json");
  const place = (name: string) => join(folder.path, locate(folder, name) ?? name);
  const path = place("tokenizer.json");
  requireFields(saved, TOKENIZER, path);
  const json = lowersCase ? lowerCase(saved) : saved;
  requireFields(config, TOKENIZER_CONFIG, place("tokenizer_config.json"));
  try {
    return { tokenizer: new Tokenizer(json, config), json, config };
  } catch (cause) {
    if (cause instanceof StartupError) {
      // The error's message begins with the name of the file.
      throw new StartupError(`${folder.path}/${cause.message}`, { cause });
    }
    throw new StartupError(`${path} is not served: ${(cause as Error).message}`, { cause });
  }
}

/** A `tokenizer.json` that converts texts to lower case before its own normalizer runs. */
function lowerCase(json: Json): Json {
  const normalizers = [{ type: "Lowercase" }, ...json["normalizer"] ? [json["normalizer"]] : []];
  return { ...json, normalizer: { type: "Sequence", normalizers } };
}

const TOKEN_ID = whole(0, MAX_TOKEN_ID);

const ANY: FieldRule = () => undefined;
const isText = (value: unknown) => typeof value === "string";

const STEP = fields({ type: TEXT }, { required: ["type"] });

/** Their items are checked where they are read: there are hundreds of thousands. */
const LIST = either("an array", [Array.isArray, ANY]);
const VOCABULARY = either("an object, or an array", [isJson, ANY], [Array.isArray, ANY]);

const SPECIAL_TOKEN = either(
  "a string, or an object with one",
  [isText, TEXT],
  [isJson, fields({ content: TEXT })],
);

/** The rules for `tokenizer.json`. */
const TOKENIZER: FieldRule = fields({
  model: fields({ type: TEXT, vocab: VOCABULARY, merges: LIST }, {
    required: ["vocab"],
  }),
  added_tokens: listRule(fields({ id: TOKEN_ID, content: TEXT }, { required: ["id", "content"] })),
  normalizer: STEP,
  pre_tokenizer: STEP,
  post_processor: STEP,
  decoder: STEP,
}, { required: ["model"] });

/** The rules for `tokenizer_config.json`. */
const TOKENIZER_CONFIG: FieldRule = fields({
  add_bos_token: FLAG,
  add_eos_token: FLAG,
  clean_up_tokenization_spaces: FLAG,
  // Many files give an absurdly large number to mean no limit.
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
