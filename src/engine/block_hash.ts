/** Takes one 32-bit word more into a hash: a round of MurmurHash3 (x86, 32 bits; Austin Appleby, public domain). */
export function mixHash(hash: number, value: number): number {
  let k = Math.imul(value, 0xcc9e2d51);
  k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
  const h = hash ^ k;
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

/** The last step of MurmurHash3: every bit of `hash` reaches the low bits that choose the bucket. */
export function spreadHash(hash: number): number {
  let h = hash;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
