/**
 * A word of a vector in all four places of another. Four words that lie side by side are loaded at once and spread:
 * every load of WebAssembly checks its address, a shuffle does not.
 */

@inline
export function spread0(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 0, 0, 0, 0);
}

@inline
export function spread1(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 1, 1, 1, 1);
}

@inline
export function spread2(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 2, 2, 2, 2);
}

@inline
export function spread3(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 3, 3, 3, 3);
}
