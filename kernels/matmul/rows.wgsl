// The rows of a product, and the norm applied to them.

@group(0) @binding(0) var<storage, read> x: array<four>;
// The norm's factors, elem [K], from AFFINE_AT on, followed by its offsets if it has any.
@group(0) @binding(1) var<storage, read> affine: array<four>;

// Length of a row in vec4s, and its layout in the tensor.
override K_FOURS: u32;
override X_STRIDE: u32;
override X_OFFSET: u32;
// 0 for none, 1 for root mean square, 2 for mean and variance.
override NORM: u32;
override EPSILON: f32;
// Offset in vec4s.
override AFFINE_AT: u32;
override HAS_BETA: bool;
