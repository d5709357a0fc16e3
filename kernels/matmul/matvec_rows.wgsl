// The matrix as [outputs, K], one row per output.

@group(0) @binding(5) var<storage, read> weights: array<four>;
