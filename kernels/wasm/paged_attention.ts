/**
 * Causal attention of grouped queries over the paged cache:
 *
 * `out[t, h] = Σ_j softmax_j(cap(scale * q[t, h] · k[j, h / group])) * v[j, h / group]`
 *
 * over the keys `j` of `t`'s sequence up to `t` itself, within the window.
 *
 * A row is a pair (query token, head of the group): rows of one KV head see the same keys, and two at a time share each
 * load of a key or value.
 */
import { Site, Step, TILE, tileOffset, wordAt } from "./layout";
import { addOne, addTwo, fillHead, scaleHead, scoreOne, scoreTwo } from "./rows";
import { toWeights } from "./softmax";

export function pagedAttention(site: Site, step: Step): void {
  const group = site.heads / site.kvHeads;
  for (let s: u32 = 0; s < step.numSequences; s++) {
    const table = step.blockTables + <usize> (s * step.maxBlocksPerSequence) * 4;
    const start = wordAt(step.queryStarts, s);
    const end = wordAt(step.queryStarts, s + 1);
    for (let kvHead: u32 = 0; kvHead < site.kvHeads; kvHead++) {
      const firstHead = kvHead * group;
      let token = start;
      let head = firstHead;
      while (token < end) {
        const tokenA = token;
        const headA = head;
        if (++head === firstHead + group) {
          head = firstHead;
          token++;
        }
        if (token === end) {
          attendRows(site, step, table, kvHead, tokenA, headA, tokenA, headA);
          break;
        }
        attendRows(site, step, table, kvHead, tokenA, headA, token, head);
        if (++head === firstHead + group) {
          head = firstHead;
          token++;
        }
      }
    }
  }
}

/** Row A of one KV head and the next after it, B; or A alone, where they are the same. */
function attendRows(
  site: Site,
  step: Step,
  table: usize,
  kvHead: u32,
  tokenA: u32,
  headA: u32,
  tokenB: u32,
  headB: u32,
): void {
  const isPair = tokenA !== tokenB || headA !== headB;
  const headBytes = <usize> site.headSize * 4;
  const endA = wordAt(step.positions, tokenA) + 1;
  const endB = wordAt(step.positions, tokenB) + 1;
  const startA = firstKey(site, endA);
  const startB = firstKey(site, endB);
  // Row B begins and ends no earlier than row A.
  const origin = startA & -TILE;
  const count = (endB - origin + TILE - 1) & -TILE;

  const queryA = queryOf(site, tokenA, headA);
  const queryB = queryOf(site, tokenB, headB);
  const scoresA = site.scores;
  const scoresB = scoresA + <usize> site.scoresStride * 4;
  for (let key: u32 = 0; key < count; key += TILE) {
    const keys = site.kCache + tileOffset(site, table, kvHead, origin + key);
    const at = <usize> key * 4;
    if (isPair) scoreTwo(keys, queryA, queryB, headBytes, scoresA + at, scoresB + at);
    else scoreOne(keys, queryA, headBytes, scoresA + at);
  }

  const outA = outOf(site, tokenA, headA);
  const outB = outOf(site, tokenB, headB);
  const totalA = weigh(site, scoresA, count, startA - origin, endA - origin, headA);
  fillHead(outA, headBytes);
  let totalB = totalA;
  if (isPair) {
    totalB = weigh(site, scoresB, count, startB - origin, endB - origin, headB);
    fillHead(outB, headBytes);
  }
  for (let key = startA; key < endB;) {
    const slot: usize = key & (TILE - 1);
    const end = min((key & -TILE) + TILE, endB);
    const values = site.vCache + tileOffset(site, table, kvHead, key) + slot * headBytes;
    const at = <usize> (key - origin) * 4;
    const count = end - key;
    if (isPair) addTwo(values, headBytes, count, headBytes, scoresA + at, scoresB + at, outA, outB);
    else addOne(values, headBytes, count, headBytes, scoresA + at, outA);
    key = end;
  }
  scaleHead(outA, headBytes, 1 / totalA);
  if (isPair) scaleHead(outB, headBytes, 1 / totalB);
}

/** The first key that a query sees which sees none from `end` on. */
function firstKey(site: Site, end: u32): u32 {
  return site.window === 0 || end < site.window ? 0 : end - site.window;
}

function queryOf(site: Site, token: u32, head: u32): usize {
  return site.q + <usize> (token * site.qStride + site.qOffset + head * site.headSize) * 4;
}

function outOf(site: Site, token: u32, head: u32): usize {
  return site.out + <usize> ((token * site.heads + head) * site.headSize) * 4;
}

function weigh(site: Site, scores: usize, count: u32, start: u32, end: u32, head: u32): f32 {
  const sink = site.sinks ? site.sinks + <usize> head * 4 : 0;
  return toWeights(scores, count, start, end, site.scale, site.softcap, sink);
}
