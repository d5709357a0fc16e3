/**
 * The body of an embedding request.
 *
 * @module
 */
import { z } from "zod";
import { flag, integerFrom, listSchema, text, tokenId } from "./fields.ts";

/** Bounds memory: all vectors are held until the last one is computed. */
const MAX_INPUTS = 16_384;

const inputWanted =
  "a string, an array of strings or of objects with a text, an array of token ids or an array of " +
  "such arrays, none of them empty";

const TokenIds = listSchema(tokenId(), { min: 1 });
const manyInputs = { min: 1, max: MAX_INPUTS };

const Input = z.union(
  [
    text(),
    listSchema(text(), manyInputs),
    TokenIds,
    listSchema(TokenIds, manyInputs),
    listSchema(z.object({ text: text() }), manyInputs),
  ],
  { error: inputWanted },
);

const cutWanted = "true or false, or END or NONE";

/** Truncation options; shared with rerank requests. */
export const TRUNCATION_FIELDS = {
  truncate: z.union([flag(), z.enum(["END", "NONE"], { error: cutWanted })], { error: cutWanted })
    .nullish()
    .describe(
      "Cut what is longer than the model takes, at its end; default false, which makes it an error, and on " +
        "/v2/rerank true",
    ),
  truncation: flag().nullish().describe("Voyage's name of truncate"),
  truncate_prompt_tokens: z.union(
    [z.literal(-1), integerFrom(1)],
    { error: "a whole number from 1 up, or -1 for the model's own limit" },
  ).nullish().describe("Cut to this many tokens, special ones included; -1 is the model's limit"),
};

const VECTOR_TYPES = ["float", "base64", "int8", "uint8", "binary", "ubinary"] as const;
const VectorType = z.enum(VECTOR_TYPES, { error: `one of ${VECTOR_TYPES.join(", ")}` });

/** How vectors are written. */
export type VectorType = typeof VECTOR_TYPES[number];

const INPUT_TYPES = ["query", "document", "passage", "search_query", "search_document"] as const;

/** An embedding request. `null` stands for an absent field; fields not named here are ignored. */
export const EmbeddingRequest = z.object({
  model: z.unknown().optional().describe("Ignored: the loaded model is used"),
  input: Input.describe("The text or texts; as token ids, those of the model's own tokenizer"),
  encoding_format: z.enum(["float", "base64"], { error: "float or base64" }).nullish()
    .describe("Vectors as numbers, or as base64 of little-endian float32; default float"),
  embedding_type: VectorType.nullish().describe(
    "Jina's and NIM's: numbers, base64 of them, bytes (elements times 127), or the signs of elements in bits",
  ),
  output_dtype: VectorType.nullish().describe("Voyage's name of embedding_type"),
  dimensions: integerFrom(1).nullish()
    .describe("Leading elements to keep of each vector, for models trained for that"),
  output_dimension: integerFrom(1).nullish().describe("Voyage's name of dimensions"),
  input_type: z.enum(INPUT_TYPES, { error: `one of ${INPUT_TYPES.join(", ")}` }).nullish()
    .describe("Puts the model's prompt for this before each text, where it has one"),
  prompt_name: text("a prompt's name").nullish()
    .describe("Puts the model's prompt of this name before each text"),
  task: text("a task's name").nullish()
    .describe("Jina's: retrieval.query and retrieval.passage, else the name of a prompt"),
  normalize: flag().nullish()
    .describe("Give vectors length 1; default as the model has it, and true for shortened ones"),
  normalized: flag().nullish().describe("Jina's name of normalize"),
  embd_normalize: z.union([z.literal(-1), z.literal(2)], { error: "-1 (no) or 2 (length 1)" })
    .nullish().describe("llama.cpp's name of normalize"),
  add_special_tokens: z.literal(true, {
    error: "true: models read texts with their special tokens",
  })
    .nullish(),
  ...TRUNCATION_FIELDS,
}, { error: "a JSON object" }).meta({ id: "EmbeddingRequest" });

export type EmbeddingRequest = z.output<typeof EmbeddingRequest>;

const PURPOSES = {
  query: "query",
  search_query: "query",
  "retrieval.query": "query",
  document: "document",
  passage: "document",
  search_document: "document",
  "retrieval.passage": "document",
} as const;

/** The purpose of a request's texts, or the name of the prompt for them, under any of the names it may have. */
export function readPurpose(
  { input_type: type, prompt_name: name, task }: EmbeddingRequest,
): { readonly inputType?: "query" | "document"; readonly promptName?: string } {
  const purposes: Readonly<Record<string, "query" | "document">> = PURPOSES;
  if (typeof name === "string") return { promptName: name };
  const said = type ?? task ?? undefined;
  if (said === undefined) return {};
  const inputType = Object.hasOwn(purposes, said) ? purposes[said] : undefined;
  return inputType === undefined ? { promptName: said } : { inputType };
}

/** How a request wants its vectors written. `encoding_format` is sent by clients unasked: another type counts more. */
export function readVectorType(request: EmbeddingRequest): VectorType {
  const type = request.embedding_type ?? request.output_dtype ?? "float";
  return type === "float" ? request.encoding_format ?? "float" : type;
}

/** Whether a request wants vectors of length 1; `undefined` if it does not say. */
export function readNormalization(request: EmbeddingRequest): boolean | undefined {
  const { normalize, normalized, embd_normalize: number } = request;
  return normalize ?? normalized ?? (typeof number === "number" ? number === 2 : undefined);
}
