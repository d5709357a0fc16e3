/**
 * Encodes the pictures of jobs, those of one size together.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import { Tensor } from "../../onnx/ort.ts";
import type { GenerationRow } from "./generation_row.ts";
import type { PictureEncoder } from "./picture_encoder.ts";

/** What encodes them. */
export interface EncodingDeps {
  readonly backend: Backend;
  readonly encoder: PictureEncoder;
  /** Most pictures that the encoder takes in one piece. */
  readonly maxPictures: number;
}

/**
 * Encodes the picture of each row, once where rows are choices of one job.
 *
 * @param rows of pictures of one size, with texts of one length; those of one job side by side.
 * @returns `[rows, places, width]`, the caller's.
 */
export async function encodeRows(
  { backend, encoder, maxPictures }: EncodingDeps,
  rows: readonly GenerationRow[],
): Promise<Tensor> {
  const jobs = [...new Set(rows.map(({ job }) => job))];
  const parts: { tensor: Tensor; rows: number[] }[] = [];
  for (let from = 0; from < jobs.length; from += maxPictures) {
    const piece = jobs.slice(from, from + maxPictures);
    const tensor = await encoder.encode({
      pixels: stack(piece.map(({ pixels }) => pixels)),
      texts: piece.map(({ text }) => text),
    });
    const places = rows.map(({ job }) => piece.indexOf(job)).filter((place) => place >= 0);
    parts.push({ tensor, rows: places });
  }
  const [only, ...others] = parts;
  if (others.length === 0 && rows.length === jobs.length) return only!.tensor;
  const all = backend.gatherRows(parts);
  for (const { tensor } of parts) tensor.dispose();
  return all;
}

function stack(pictures: readonly Tensor[]): Tensor {
  const [first] = pictures;
  if (pictures.length === 1) return first!;
  const data = new Float32Array(pictures.length * first!.size);
  pictures.forEach((picture, row) => data.set(picture.data as Float32Array, row * first!.size));
  return new Tensor("float32", data, [pictures.length, ...first!.dims.slice(1)]);
}
