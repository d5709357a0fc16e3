/**
 * WGSL that brings the keys, then the values of each tile to workgroup memory; see `attention_tile.ts`.
 *
 * @module
 */
import { repeat } from "../common/written_out.ts";

/** Fours that a thread loads at once; halves take half of the registers. */
const LOADS_AT_ONCE = { f32: 8, f16: 16 };

/** What stands where in the loop over tiles. */
interface Staging {
  readonly beforeLoop: string;
  readonly writeKeys: string;
  readonly afterKeys: string;
  readonly writeValues: string;
}

/**
 * Where a thread has few fours of a tile, it keeps them in registers: values are loaded while scores are computed, and
 * the next tile's keys while outputs are. Keys before `first_seen` repeat that one, and those from `key_end` on the last
 * one: what lies there may be NaN, or another sequence's.
 */
export function writeStaging(
  { headFours, keys, threads, isUnpacked, isHalf }: {
    readonly headFours: number;
    readonly keys: number;
    readonly threads: number;
    readonly isUnpacked: boolean;
    readonly isHalf: boolean;
  },
): Staging {
  const fours = keys * headFours;
  const perThread = Math.ceil(fours / threads);
  const most = LOADS_AT_ONCE[isHalf ? "f16" : "f32"];
  const atOnce = Math.min(most, perThread);
  const each = (write: (n: number, at: string) => string) =>
    repeat(atOnce, (n) => write(n, `(first + ${n * threads}u)`));
  const load = (into: string, what: string, tile: string) =>
    each((n, at) =>
      `${into}${n} = load_${what}(item, clamp(${tile} + ${at} / ${headFours}u, first_seen, key_end - 1u), kv_head, ${at} % ${headFours}u);`
    );
  const store = (from: string) =>
    each((n, at) => {
      const value = isUnpacked ? `unpack(${from}${n})` : `${from}${n}`;
      const write = `kv_tile[${at} / ${headFours}u * ${
        headFours + 1
      }u + ${at} % ${headFours}u] = ${value};`;
      return fours % (atOnce * threads) === 0 ? write : `if (${at} < ${fours}u) { ${write} }`;
    });
  if (perThread <= most) {
    return {
      beforeLoop: `let first = thread;\n${load("var staged_key", "key", "key_start")}`,
      writeKeys: store("staged_key"),
      afterKeys: load("let staged_value", "value", "tile"),
      writeValues: `${store("staged_value")}\n${load("staged_key", "key", `tile + ${keys}u`)}`,
    };
  }
  const copy = (what: string) => `
    for (var first = thread; first < ${fours}u; first += ${atOnce * threads}u) {
      ${load("let staged", what, "tile")}
      ${store("staged")}
    }`;
  return { beforeLoop: "", writeKeys: copy("key"), afterKeys: "", writeValues: copy("value") };
}
