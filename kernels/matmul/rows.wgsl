// The rows of a product, and the norm before it.

@group(0) @binding(0) var<storage, read> x: array<four>;
// The norm's factors, elem [K], from AFFINE_AT on, and its offsets behind them where it has such.
@group(0) @binding(1) var<storage, read> affine: array<four>;

// Fours of a row, all of it and where it begins in the tensor.
override K_FOURS: u32;
override X_STRIDE: u32;
override X_OFFSET: u32;
// 0 none, 1 root mean square, 2 mean and variance.
override NORM: u32;
override EPSILON: f32;
// In fours.
override AFFINE_AT: u32;
override HAS_BETA: bool;
