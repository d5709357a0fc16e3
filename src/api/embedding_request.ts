/**
 * The body of an embedding request.
 *
 * @module
 */
import { z } from "zod";
import { flag, integerFrom, listOf, text } from "./fields.ts";

/** Bounds memory: all vectors are held until the last one is computed. */
const MAX_INPUTS = 16_384;

const inputWanted =
  "a string, an array of strings, an array of token ids or an array of such arrays, none of them empty";

const TokenIds = listOf(integerFrom(0, 2 ** 31 - 1), { min: 1 });
const manyInputs = { min: 1, max: MAX_INPUTS };

const Input = z.union(
  [text(), listOf(text(), manyInputs), TokenIds, listOf(TokenIds, manyInputs)],
  { error: inputWanted },
);

/** Truncation options; shared with rerank requests. */
export const TRUNCATION_FIELDS = {
  truncate: flag().nullish()
    .describe(
      "Cut what is longer than the model takes; default false, which makes it an error, and on " +
        "/v2/rerank true",
    ),
  truncate_prompt_tokens: z.union(
    [z.literal(-1), integerFrom(1)],
    { error: "a whole number from 1 up, or -1 for the model's own limit" },
  ).nullish().describe("Cut to this many tokens, special ones included; -1 is the model's limit"),
};

/** An embedding request. `null` stands for an absent field; fields not named here are ignored. */
export const EmbeddingRequest = z.object({
  model: z.unknown().optional().describe("Ignored: the loaded model is used"),
  input: Input.describe("The text or texts; as token ids, those of the model's own tokenizer"),
  encoding_format: z.enum(["float", "base64"], { error: "float or base64" }).nullish()
    .describe("Vectors as numbers, or as base64 of little-endian float32; default float"),
  dimensions: integerFrom(1).nullish()
    .describe("Leading elements to keep of each vector, for models trained for that"),
  input_type: z.enum(["query", "document"], { error: "query or document" }).nullish()
    .describe("Puts the model's prompt for this before each text, where it has one"),
  ...TRUNCATION_FIELDS,
}, { error: "a JSON object" }).meta({ id: "EmbeddingRequest" });

export type EmbeddingRequest = z.output<typeof EmbeddingRequest>;
