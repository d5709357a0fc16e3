/**
 * Embedding requests and their responses: `/embeddings` as in OpenAI's API, `/embed` as in
 * text-embeddings-inference's, `/v2/embed` as in Cohere's.
 *
 * @module
 */
import { z } from "zod";
import { flag, integerFrom, listSchema, text, tokenId } from "./fields.ts";

/** Maximum number of inputs of a request. It bounds memory: all vectors are held until the last one is computed. */
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

const DIRECTIONS = ["right", "left", "Right", "Left"] as const;
const direction = () => z.enum(DIRECTIONS, { error: "right or left" }).nullish();

/** Cohere's and NIM's values of `truncate`: which end of a long text is cut off. */
const CUTS = ["END", "START", "NONE"] as const;
const cutWanted = "true or false, or END, START or NONE";

/** Truncation options, shared with rerank requests. */
export const TRUNCATION_FIELDS = {
  truncate: z.union([flag(), z.enum(CUTS, { error: cutWanted })], { error: cutWanted })
    .nullish()
    .describe(
      "Cut texts longer than the model's limit: true or END at their end, START at their beginning. " +
        "By default such texts are an error; /v2/rerank cuts them",
    ),
  truncation: flag().nullish().describe("Voyage's name for truncate"),
  truncate_prompt_tokens: z.union(
    [z.literal(-1), integerFrom(1)],
    { error: "a whole number from 1 up, or -1 for the model's own limit" },
  ).nullish().describe(
    "Cut to this many tokens, special ones included; -1 means the model's limit",
  ),
  truncation_direction: direction().describe(
    "Where texts are cut: at the right, the default, or at the left, so that their last tokens stay",
  ),
  truncation_side: direction().describe("vLLM's name for truncation_direction"),
};

interface TruncationFields {
  readonly truncate?: boolean | typeof CUTS[number] | null | undefined;
  readonly truncation?: boolean | null | undefined;
}

/** Whether a request wants long texts cut; `undefined` if it does not say. */
export function wantsCut({ truncate, truncation }: TruncationFields): boolean | undefined {
  if (typeof truncate === "string") return truncate !== "NONE";
  return truncate ?? truncation ?? undefined;
}

/** Whether a request wants texts cut at their beginning, so that their ends are kept. */
export function readKeepsEnd(request: {
  readonly truncate?: TruncationFields["truncate"];
  readonly truncation_direction?: typeof DIRECTIONS[number] | null | undefined;
  readonly truncation_side?: typeof DIRECTIONS[number] | null | undefined;
}): boolean {
  if (request.truncate === "START") return true;
  return /left/i.test(request.truncation_direction ?? request.truncation_side ?? "");
}

/**
 * Maximum number of tokens of a request's texts, or `model` for the model's own limit; `undefined` if the texts must
 * not be cut.
 */
export function readTruncation(
  request: TruncationFields & { readonly truncate_prompt_tokens?: number | null | undefined },
): number | "model" | undefined {
  const { truncate_prompt_tokens: maxTokens } = request;
  if (typeof maxTokens === "number") return maxTokens === -1 ? "model" : maxTokens;
  return wantsCut(request) === true ? "model" : undefined;
}

const VECTOR_TYPES = ["float", "base64", "int8", "uint8", "binary", "ubinary"] as const;
const VectorType = z.enum(VECTOR_TYPES, { error: `one of ${VECTOR_TYPES.join(", ")}` });

/** The type in which the elements of vectors are written. */
type VectorType = typeof VECTOR_TYPES[number];

const INPUT_TYPES = ["query", "document", "passage", "search_query", "search_document"] as const;

/** An embedding request. `null` counts as absent; unknown fields are ignored. */
export const EmbeddingRequest = z.object({
  model: z.unknown().optional().describe("Ignored: the loaded model is used"),
  input: Input.describe("The text or texts, or their token ids in the model's own tokenizer"),
  encoding_format: z.enum(["float", "base64"], { error: "float or base64" }).nullish()
    .describe("Vectors as numbers, or as base64 of little-endian float32; default float"),
  embedding_type: VectorType.nullish().describe(
    "Jina's and NIM's field: numbers, their base64, bytes (elements times 127), or bits (signs of elements)",
  ),
  output_dtype: VectorType.nullish().describe("Voyage's name for embedding_type"),
  dimensions: integerFrom(1).nullish()
    .describe("Length to which each vector is shortened, for models trained for that"),
  output_dimension: integerFrom(1).nullish().describe("Voyage's name for dimensions"),
  input_type: z.enum(INPUT_TYPES, { error: `one of ${INPUT_TYPES.join(", ")}` }).nullish()
    .describe("Puts the model's prompt for this purpose before each text, if it has one"),
  prompt_name: text("a prompt's name").nullish()
    .describe("Puts the model's prompt with this name before each text"),
  task: text("a task's name").nullish()
    .describe("Jina's field: retrieval.query, retrieval.passage, or the name of a prompt"),
  normalize: flag().nullish()
    .describe(
      "Scale vectors to length 1; the default is the model's own, and true for shortened vectors",
    ),
  normalized: flag().nullish().describe("Jina's name for normalize"),
  embd_normalize: z.union([z.literal(-1), z.literal(2)], { error: "-1 (no) or 2 (length 1)" })
    .nullish().describe("llama.cpp's name for normalize"),
  add_special_tokens: z.literal(true, {
    error: "true, because models need their special tokens",
  })
    .nullish(),
  ...TRUNCATION_FIELDS,
}, { error: "a JSON object" }).meta({ id: "EmbeddingRequest" });

export type EmbeddingRequest = z.output<typeof EmbeddingRequest>;

/** A request to `/embed`. `null` counts as absent; unknown fields are ignored. */
export const TextEmbedRequest = EmbeddingRequest
  .pick({ prompt_name: true, dimensions: true, truncate: true, truncation_direction: true })
  .extend({
    inputs: Input.describe("The text or texts, or their token ids in the model's own tokenizer"),
    normalize: flag().nullish().describe("Scale vectors to length 1; default true"),
  }).meta({ id: "TextEmbedRequest" });

/** A vector for each text, in the request's order. */
export const TextVectors = z.array(z.array(z.number())).meta({ id: "TextVectors" });

const PURPOSES = {
  query: "query",
  search_query: "query",
  "retrieval.query": "query",
  document: "document",
  passage: "document",
  search_document: "document",
  "retrieval.passage": "document",
} as const;

/** The purpose of a request's texts, or the name of their prompt, from whichever field gives it. */
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

/**
 * The type in which a request wants its vectors. Clients send `encoding_format` by default, so the other fields take
 * precedence.
 */
export function readVectorType(request: EmbeddingRequest): VectorType {
  const type = request.embedding_type ?? request.output_dtype ?? "float";
  return type === "float" ? request.encoding_format ?? "float" : type;
}

/** Whether a request wants vectors of length 1; `undefined` if it does not say. */
export function readNormalization(request: EmbeddingRequest): boolean | undefined {
  const { normalize, normalized, embd_normalize: number } = request;
  return normalize ?? normalized ?? (typeof number === "number" ? number === 2 : undefined);
}

/** How many numbers are written before each yield, at which the server can answer other requests. */
const ELEMENTS_PER_CHUNK = 32_768;

/** A list of vectors in the order of the inputs. */
export const EmbeddingList = z.object({
  id: z.string().describe("The request's id"),
  object: z.literal("list"),
  data: z.array(z.object({
    object: z.literal("embedding"),
    index: integerFrom(0).describe("Index of the input in the request"),
    embedding: z.union([z.array(z.number()), z.base64()])
      .describe("Numbers, bytes or bits, by the requested type"),
  })),
  model: z.string(),
  usage: z.object({ prompt_tokens: integerFrom(0), total_tokens: integerFrom(0) }),
}).meta({ id: "EmbeddingList" });

export type EmbeddingList = z.output<typeof EmbeddingList>;

/** Vectors: f32 `[inputs, dimensions]`, row-major. */
interface Vectors {
  readonly vectors: Float32Array;
  readonly dimensions: number;
}

/** The contents of an {@linkcode EmbeddingList}. */
interface EmbeddingResult extends Vectors {
  readonly id: string;
  readonly model: string;
  readonly promptTokens: number;
  readonly format: VectorType;
}

/**
 * Writes an {@linkcode EmbeddingList} as JSON, in chunks.
 *
 * @example
 * ```ts
 * import { writeEmbeddings } from "./embeddings.ts";
 * import assert from "node:assert/strict";
 * const vectors = Float32Array.of(0.5, -1);
 * const options = { id: "i", model: "m", vectors, dimensions: 2, promptTokens: 3, format: "float" } as const;
 * const list = JSON.parse([...writeEmbeddings(options)].join(""));
 * assert.deepEqual(list.data, [{ object: "embedding", index: 0, embedding: [0.5, -1] }]);
 * ```
 */
export function* writeEmbeddings(result: EmbeddingResult): Generator<string> {
  const { id, model, format, promptTokens } = result;
  const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens };
  yield* writeRows(result, {
    start: `{"id":${JSON.stringify(id)},"object":"list","data":[`,
    write: (vector, row) =>
      `{"object":"embedding","index":${row},"embedding":${writeVector(vector, format)}}`,
    end: `],"model":${JSON.stringify(model)},"usage":${JSON.stringify(usage)}}`,
  });
}

/** Writes {@linkcode TextVectors} as JSON, in chunks. */
export function writeTextVectors(vectors: Vectors): Generator<string> {
  return writeRows(vectors, { start: "[", write: (row) => writeVector(row, "float"), end: "]" });
}

/** Writes vectors separated by commas, between a start and an end. */
function* writeRows({ vectors, dimensions }: Vectors, { start, write, end }: {
  readonly start: string;
  readonly write: (vector: Float32Array, row: number) => string;
  readonly end: string;
}): Generator<string> {
  const numRows = vectors.length / dimensions;
  let chunk = start;
  let numElements = 0;
  for (let row = 0; row < numRows; row++) {
    const vector = vectors.subarray(row * dimensions, (row + 1) * dimensions);
    chunk += (row === 0 ? "" : ",") + write(vector, row);
    numElements += dimensions;
    if (numElements < ELEMENTS_PER_CHUNK) continue;
    yield chunk;
    chunk = "";
    numElements = 0;
  }
  yield chunk + end;
}

function writeVector(vector: Float32Array, format: VectorType): string {
  if (format === "base64") return `"${encodeBase64(vector)}"`;
  if (format === "float") return `[${vector.join(",")}]`;
  const rows = convertVectors(vector, { dimensions: vector.length, types: [format] });
  return `[${rows[format]![0]!.join(",")}]`;
}

/** Encodes as little-endian, the byte order of every machine that Deno runs on. */
function encodeBase64({ buffer, byteOffset, byteLength }: Float32Array): string {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength).toBase64();
}

const COHERE_INPUT_TYPES = [
  "search_document",
  "search_query",
  "classification",
  "clustering",
] as const;

/**
 * A request to `/v2/embed`, or to `/embed` in the format of Cohere's API v1. `null` counts as absent; unknown fields are
 * ignored.
 */
export const CohereEmbedRequest = z.object({
  model: z.unknown().optional().describe("Ignored: the loaded model is used"),
  texts: listSchema(text(), manyInputs),
  input_type: z.enum(COHERE_INPUT_TYPES, { error: `one of ${COHERE_INPUT_TYPES.join(", ")}` })
    .nullish(),
  embedding_types: listSchema(VectorType).nullish()
    .describe("Default float"),
  output_dimension: integerFrom(1).nullish(),
  truncate: z.enum(CUTS, { error: CUTS.join(", ") }).nullish().describe(
    "END, the default, and START cut texts that are longer than the model's limit, at that end",
  ),
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

const EmbeddingsByType = z.object({
  float: Vectors,
  int8: Vectors,
  uint8: Vectors,
  binary: Vectors,
  ubinary: Vectors,
  base64: z.array(z.base64()),
}).partial();

type EmbeddingsByType = z.output<typeof EmbeddingsByType>;

const cohereEmbeddings = {
  id: z.string(),
  texts: z.array(z.string()),
  meta: z.object({
    api_version: z.object({ version: z.enum(["1", "2"]) }),
    billed_units: z.object({ input_tokens: integerFrom(0) }),
  }),
};

/** The response to a {@linkcode CohereEmbedRequest}. API v1 answers with a list if the request names no types. */
export const CohereEmbedResponse = z.discriminatedUnion("response_type", [
  z.object({
    ...cohereEmbeddings,
    response_type: z.literal("embeddings_by_type"),
    embeddings: EmbeddingsByType,
  }),
  z.object({
    ...cohereEmbeddings,
    response_type: z.literal("embeddings_floats"),
    embeddings: Vectors,
  }),
]).meta({ id: "CohereEmbeddings" });

export type CohereEmbedResponse = z.output<typeof CohereEmbedResponse>;

/**
 * Converts vectors to the requested types. `int8` is an element times 127, rounded and clamped to -128 to 127; `uint8`
 * is 128 more. `ubinary` packs the signs of eight elements into a byte, with the first element in the highest bit;
 * `binary` is 128 less.
 *
 * @param vectors f32 `[texts, dimensions]`, row-major.
 *
 * @example
 * ```ts
 * import { convertVectors } from "./embeddings.ts";
 * import assert from "node:assert/strict";
 * const vectors = Float32Array.of(1, -0.5, 0, 0, 0, 0, 0, 0.25);
 * const { int8, ubinary, binary } = convertVectors(vectors, { dimensions: 8, types: ["int8", "ubinary", "binary"] });
 * assert.deepEqual(int8, [[127, -63, 0, 0, 0, 0, 0, 32]]);
 * assert.deepEqual([ubinary, binary], [[[129]], [[1]]]);
 * ```
 */
export function convertVectors(
  vectors: Float32Array,
  { dimensions, types }: { readonly dimensions: number; readonly types: readonly VectorType[] },
): EmbeddingsByType {
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

/** Packs the signs of a vector into bytes: a bit is 1 if its element is greater than 0. */
function packBits(row: Float32Array): number[] {
  return Array.from({ length: Math.ceil(row.length / 8) }, (_, byte) => {
    let packed = 0;
    for (let bit = 0; bit < 8; bit++) {
      packed = packed << 1 | Number((row[byte * 8 + bit] ?? 0) > 0);
    }
    return packed;
  });
}
