/**
 * Embeddings in the format of Cohere's API v2: the request, and vectors of several types.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom, listSchema, text } from "./fields.ts";

const MAX_TEXTS = 16_384;
const TYPES = ["float", "int8", "uint8", "binary", "ubinary", "base64"] as const;
const INPUT_TYPES = ["search_document", "search_query", "classification", "clustering"] as const;

/** A request. `null` counts as absent; unknown fields are ignored. */
export const CohereEmbedRequest = z.object({
  model: z.unknown().optional().describe("Ignored: the loaded model is used"),
  texts: listSchema(text(), { min: 1, max: MAX_TEXTS }),
  input_type: z.enum(INPUT_TYPES, { error: `one of ${INPUT_TYPES.join(", ")}` }).nullish(),
  embedding_types: listSchema(z.enum(TYPES, { error: `one of ${TYPES.join(", ")}` })).nullish()
    .describe("Default float"),
  output_dimension: integerFrom(1).nullish(),
  truncate: z.enum(["NONE", "END"], { error: "NONE or END" }).nullish()
    .describe("END, the default, cuts texts that are longer than the model's limit"),
  max_tokens: integerFrom(1).nullish()
    .describe("Cut each text to this many tokens, special ones included"),
  images: z.null({ error: "no value, because images cannot be embedded" }).optional(),
  inputs: z.null({ error: "texts instead" }).optional(),
}, { error: "a JSON object" })
  .refine(({ truncate, max_tokens: most }) => truncate !== "NONE" || typeof most !== "number", {
    path: ["max_tokens"],
    error: "no value together with truncate NONE, with which no text is cut",
  })
  .meta({ id: "CohereEmbedRequest" });

const Vectors = z.array(z.array(z.number()));

/** The answer. */
export const CohereEmbedResponse = z.object({
  id: z.string(),
  response_type: z.literal("embeddings_by_type"),
  embeddings: z.object({
    float: Vectors,
    int8: Vectors,
    uint8: Vectors,
    binary: Vectors,
    ubinary: Vectors,
    base64: z.array(z.base64()),
  }).partial(),
  texts: z.array(z.string()),
  meta: z.object({
    api_version: z.object({ version: z.literal("2") }),
    billed_units: z.object({ input_tokens: integerFrom(0) }),
  }),
}).meta({ id: "CohereEmbeddings" });

/** A type of vectors. */
type EmbeddingType = typeof TYPES[number];
export type CohereEmbedResponse = z.output<typeof CohereEmbedResponse>;

/**
 * Converts vectors to the requested types. For bytes, elements, which are between -1 and 1, are multiplied by 127. Bits
 * are the signs of elements, eight to a byte, with the first element in the highest bit.
 *
 * @param vectors f32 `[texts, dimensions]`, row-major, each row of length 1.
 *
 * @example
 * ```ts
 * import { embeddingsByType } from "./cohere_embed.ts";
 * import assert from "node:assert/strict";
 * const vectors = Float32Array.of(1, -0.5, 0, 0, 0, 0, 0, 0.25);
 * const { int8, ubinary, binary } = embeddingsByType(vectors, { dimensions: 8, types: ["int8", "ubinary", "binary"] });
 * assert.deepEqual(int8, [[127, -63, 0, 0, 0, 0, 0, 32]]);
 * assert.deepEqual([ubinary, binary], [[[129]], [[1]]]);
 * ```
 */
export function embeddingsByType(
  vectors: Float32Array,
  { dimensions, types }: { readonly dimensions: number; readonly types: readonly EmbeddingType[] },
): CohereEmbedResponse["embeddings"] {
  const numRows = vectors.length / dimensions;
  const rows = Array.from(
    { length: numRows },
    (_, row) => vectors.subarray(row * dimensions, (row + 1) * dimensions),
  );
  const toRows = (make: (row: Float32Array) => Iterable<number>) =>
    rows.map((row) => Array.from(make(row)));
  const bytes = (offset: number) => toRows((row) => Array.from(row, (x) => toByte(x) + offset));
  const bits = (offset: number) => toRows((row) => packBits(row).map((byte) => byte - offset));
  const makers = {
    float: () => toRows((row) => row),
    int8: () => bytes(0),
    uint8: () => bytes(128),
    binary: () => bits(128),
    ubinary: () => bits(0),
    base64: () => rows.map((row) => new Uint8Array(row.slice().buffer).toBase64()),
  };
  return Object.fromEntries(types.map((type) => [type, makers[type]()]));
}

function toByte(value: number): number {
  return Math.max(-128, Math.min(127, Math.round(value * 127)));
}

/** Packs the signs of a vector into bytes. Zero counts as not positive. */
function packBits(row: Float32Array): number[] {
  return Array.from({ length: Math.ceil(row.length / 8) }, (_, byte) => {
    let packed = 0;
    for (let bit = 0; bit < 8; bit++) {
      packed = packed << 1 | Number((row[byte * 8 + bit] ?? 0) > 0);
    }
    return packed;
  });
}
