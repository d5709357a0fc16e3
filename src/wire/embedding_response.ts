/**
 * The answer to an embedding request.
 *
 * @module
 */
import { z } from "zod";
import { embeddingsByType } from "./cohere_embed.ts";
import type { VectorType } from "./embedding_request.ts";
import { integerFrom } from "./fields.ts";

/** Numbers written between two yields, so that the server can answer other requests in between. */
const ELEMENTS_PER_PIECE = 32_768;

/** Vectors in the order of the inputs. */
export const EmbeddingList = z.object({
  id: z.string().describe("Of the request"),
  object: z.literal("list"),
  data: z.array(z.object({
    object: z.literal("embedding"),
    index: integerFrom(0).describe("Index of the input in the request"),
    embedding: z.union([z.array(z.number()), z.base64()])
      .describe("Numbers, bytes or bits, by the type asked for"),
  })),
  model: z.string(),
  usage: z.object({ prompt_tokens: integerFrom(0), total_tokens: integerFrom(0) }),
}).meta({ id: "EmbeddingList" });

export type EmbeddingList = z.output<typeof EmbeddingList>;

/** What {@linkcode writeEmbeddings} writes. */
interface EmbeddingResult {
  readonly id: string;
  readonly model: string;
  /** f32 `[inputs, dimensions]`, row-major. */
  readonly vectors: Float32Array;
  readonly dimensions: number;
  readonly promptTokens: number;
  readonly format: VectorType;
}

/**
 * Writes an {@linkcode EmbeddingList} as JSON, piece by piece.
 *
 * @example
 * ```ts
 * import { writeEmbeddings } from "./embedding_response.ts";
 * import assert from "node:assert/strict";
 * const vectors = Float32Array.of(0.5, -1);
 * const options = { id: "i", model: "m", vectors, dimensions: 2, promptTokens: 3, format: "float" } as const;
 * const list = JSON.parse([...writeEmbeddings(options)].join(""));
 * assert.deepEqual(list.data, [{ object: "embedding", index: 0, embedding: [0.5, -1] }]);
 * ```
 */
export function* writeEmbeddings(result: EmbeddingResult): Generator<string> {
  const { vectors, dimensions, format, promptTokens } = result;
  const numRows = vectors.length / dimensions;
  let piece = `{"id":${JSON.stringify(result.id)},"object":"list","data":[`;
  let numElements = 0;
  for (let row = 0; row < numRows; row++) {
    const vector = vectors.subarray(row * dimensions, (row + 1) * dimensions);
    const embedding = writeVector(vector, format);
    piece += `${
      row === 0 ? "" : ","
    }{"object":"embedding","index":${row},"embedding":${embedding}}`;
    numElements += dimensions;
    if (numElements < ELEMENTS_PER_PIECE) continue;
    yield piece;
    piece = "";
    numElements = 0;
  }
  const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens };
  yield `${piece}],"model":${JSON.stringify(result.model)},"usage":${JSON.stringify(usage)}}`;
}

function writeVector(vector: Float32Array, format: VectorType): string {
  if (format === "base64") return `"${encodeBase64(vector)}"`;
  if (format === "float") return `[${vector.join(",")}]`;
  const rows = embeddingsByType(vector, { dimensions: vector.length, types: [format] });
  return `[${rows[format]![0]!.join(",")}]`;
}

/** All machines that Deno runs on are little-endian, as the format wants it. */
function encodeBase64({ buffer, byteOffset, byteLength }: Float32Array): string {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength).toBase64();
}
