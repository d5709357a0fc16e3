// The matrix [outputs, K], a row for each output.

@group(0) @binding(5) var<storage, read> weights: array<four>;
