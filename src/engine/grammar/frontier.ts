/**
 * The parse states of a text in a grammar, and their transitions by byte.
 *
 * A text may have several parses at once. Calls of rules are shared between them and stored once, so that equal parse
 * states give the same frontier. In this way the grammar becomes a finite automaton, built lazily while it is used.
 *
 * @see Tomita 1985: An efficient context-free parsing algorithm (graph-structured stacks)
 * @module
 */
import { type Call, Closure, listReturns, type Thread, type TokenEdge } from "./closure.ts";
import { type ByteClasses, joinClasses } from "./first_bytes.ts";
import { NOTHING } from "./expressions.ts";
import { ANY_TOKEN, type Network } from "./network.ts";

export interface Frontier {
  readonly threads: readonly Thread[];
  readonly tokens: readonly TokenEdge[];
  /** Whether the text may end here. */
  readonly canEnd: boolean;
  readonly classes: ByteClasses;
  /** Frontiers by the class of the next byte: `null` if the byte cannot come, `undefined` if not computed yet. */
  nexts: (Frontier | null | undefined)[];
}

/** Most frontiers that are cached. */
const MAX_FRONTIERS = 20_000;

/** The frontiers of a network. */
export class Frontiers {
  readonly start: Frontier;
  readonly #network: Network;
  readonly #frontiers = new Map<string, Frontier>();
  readonly #calls = new Map<string, Call>();
  /** Maps calls to equal calls that replace them. */
  readonly #sameAs = new WeakMap<Call, Call>();
  readonly #recursive = new Set<Call>();
  #nextId = 1;

  constructor(network: Network) {
    this.#network = network;
    const closure = new Closure(network);
    closure.begin(network.root);
    this.start = this.#intern(closure);
  }

  /** Begins a unit of work, whose visits are limited. */
  beginWork(): void {
    this.#network.expressions.beginWork();
  }

  /** The frontier after a byte; `null` if the byte cannot come. */
  step(frontier: Frontier, byte: number): Frontier | null {
    const index = frontier.classes.of[byte]!;
    const known = frontier.nexts[index];
    if (known !== undefined) return known;
    const { expressions } = this.#network;
    expressions.visit(1 + frontier.threads.length);
    const closure = new Closure(this.#network);
    for (const { expression, next, call } of frontier.threads) {
      const rest = expressions.derive(expression, byte);
      if (rest !== NOTHING && !expressions.isEmpty(rest)) closure.scan(rest, next, call);
    }
    return frontier.nexts[index] = closure.isEmpty ? null : this.#intern(closure);
  }

  /** The frontier after a special token. A token that is expected by its id does not also match as "any token". */
  stepToken(frontier: Frontier, id: number): Frontier | null {
    const isNamed = frontier.tokens.some(({ tokenId }) => tokenId === id);
    const closure = new Closure(this.#network);
    for (const { tokenId, next, call } of frontier.tokens) {
      if (tokenId === (isNamed ? id : ANY_TOKEN)) closure.enter(next, call);
    }
    return closure.isEmpty ? null : this.#intern(closure);
  }

  #intern(closure: Closure): Frontier {
    const close = <T extends { readonly call: Call }>(each: T): T => ({
      ...each,
      call: this.#close(each.call, new Set()),
    });
    const threads = closure.threads.map(close);
    const tokens = closure.tokens.map(close);
    const key = [
      closure.canEnd,
      ...threads.map(({ expression, next, call }) => `${expression},${next},${call.id}`).sort(),
      ...tokens.map(({ tokenId, next, call }) => `t${tokenId},${next},${call.id}`).sort(),
    ].join(";");
    const known = this.#frontiers.get(key);
    if (known !== undefined) return known;
    if (this.#frontiers.size >= MAX_FRONTIERS) this.#forget();
    const { expressions } = this.#network;
    const classes = new Set(threads.map(({ expression }) => expressions.getClasses(expression)));
    const { canEnd } = closure;
    const frontier = { threads, tokens, canEnd, classes: joinClasses([...classes]), nexts: [] };
    this.#frontiers.set(key, frontier);
    return frontier;
  }

  /** Frontiers in use stay valid, but their transitions are computed again. */
  #forget(): void {
    for (const frontier of this.#frontiers.values()) frontier.nexts = [];
    this.start.nexts = [];
    this.#frontiers.clear();
    this.#calls.clear();
  }

  /**
   * Fixes the callers of a call, and merges equal calls, except left-recursive ones.
   *
   * @param closing calls that are being closed; those met again are added to `#recursive`.
   */
  #close(call: Call, closing: Set<Call>): Call {
    const same = this.#sameAs.get(call);
    if (same !== undefined) return same;
    if (call.id !== 0) {
      if (closing.has(call)) this.#recursive.add(call);
      return call;
    }
    const open = listReturns(call);
    call.id = this.#nextId++;
    closing.add(call);
    const returns = new Map<string, Call["returns"][number]>();
    for (const each of open) {
      const caller = each.call && this.#close(each.call, closing);
      returns.set(`${each.state},${caller?.id}`, { state: each.state, call: caller });
    }
    closing.delete(call);
    call.returns = [...returns.values()];
    call.callers = [];
    if (this.#recursive.delete(call)) return call;
    const key = `${call.rule}:${[...returns.keys()].sort().join(";")}`;
    const known = this.#calls.get(key);
    if (known === undefined) this.#calls.set(key, call);
    else this.#sameAs.set(call, known);
    return known ?? call;
  }
}
