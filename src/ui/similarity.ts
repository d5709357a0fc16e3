/**
 * Similarity of vectors, and their projection to a plane.
 *
 * @module
 */

/** Cosines of all pairs, `[n][n]`. */
export function cosines(vectors: readonly (readonly number[])[]): number[][] {
  const norms = vectors.map((vector) => Math.sqrt(dot(vector, vector)) || 1);
  return vectors.map((a, i) => vectors.map((b, j) => dot(a, b) / (norms[i]! * norms[j]!)));
}

/**
 * The two directions in which the vectors differ most (principal component analysis), by power iteration on their Gram
 * matrix, which is small where the vectors are few.
 *
 * @returns a point per vector, within -1 to 1.
 */
export function project(vectors: readonly (readonly number[])[]): [number, number][] {
  const count = vectors.length;
  const width = vectors[0]?.length ?? 0;
  const mean = Array.from(
    { length: width },
    (_, at) => vectors.reduce((sum, vector) => sum + vector[at]!, 0) / count,
  );
  const centred = vectors.map((vector) => vector.map((value, at) => value - mean[at]!));
  const gram = centred.map((a) => centred.map((b) => dot(a, b)));
  const x = largestComponent(gram);
  const deflated = gram.map((row, i) =>
    row.map((value, j) => value - x.size * x.vector[i]! * x.vector[j]!)
  );
  const y = largestComponent(deflated);
  const scaled = [x, y].map(({ vector }) => {
    const most = Math.max(...vector.map(Math.abs)) || 1;
    return vector.map((value) => value / most);
  });
  return vectors.map((_, at) => [scaled[0]![at]!, scaled[1]![at]!]);
}

function largestComponent(matrix: readonly (readonly number[])[]): {
  vector: number[];
  size: number;
} {
  // Any start vector works that is not one of the other components.
  let vector = matrix.map((_, at) => Math.sin(at + 1));
  let size = 0;
  for (let round = 0; round < 100; round++) {
    const next = matrix.map((row) => dot(row, vector));
    size = Math.sqrt(dot(next, next));
    if (size < 1e-12) return { vector: matrix.map(() => 0), size: 0 };
    vector = next.map((value) => value / size);
  }
  return { vector, size };
}

function dot(a: readonly number[], b: readonly number[]): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at]! * b[at]!;
  return sum;
}
