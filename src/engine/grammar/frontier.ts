/**
 * The parse states of a text in a grammar, their transitions by byte, and their closure: everything that can come next.
 *
 * A text may have several parses at once. Calls of rules are shared between parses and stored once, so that equal parse
 * states give the same frontier. In this way the grammar becomes a finite automaton, built lazily while it is used.
 *
 * @see Tomita 1985: An efficient context-free parsing algorithm (graph-structured stacks)
 * @module
 */
import { type ByteClasses, joinClasses } from "./expression_nodes.ts";
import { EMPTY_TEXT, NOTHING } from "./expressions.ts";
import { ANY_TOKEN, type Network } from "./rules.ts";
import { GrammarError } from "./grammar.ts";

/** Everything that can come next in a text: the set of its parse states. */
export interface Frontier {
  readonly threads: readonly Thread[];
  readonly tokens: readonly TokenEdge[];
  /** Whether the text may end here. */
  readonly canEnd: boolean;
  readonly classes: ByteClasses;
  /** Frontiers by the class of the next byte: `null` if the byte cannot come, `undefined` if not computed yet. */
  nexts: (Frontier | null | undefined)[];
}

/** Maximum number of frontiers that are cached. */
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

  /** Computes the frontier after a byte; `null` if the byte cannot come. */
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

  /**
   * Computes the frontier after a special token. A token that is expected by its id does not also match as "any token".
   */
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
   * Computes all returns of a call, and merges equal calls, except left-recursive ones.
   *
   * @param closing calls that are being closed. If one of them is met again, it is added to `#recursive`.
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

/** Maximum number of states that a single byte may lead through. */
const MAX_STATES = 20_000;

/** A call of a rule that has not ended. */
export interface Call {
  /** Identifies the call; 0 until its callers are known. */
  id: number;
  readonly rule: number;
  /** Positions to continue from when the rule ends. */
  returns: readonly Return[];
  /** Callers in tail position, whose returns are returns of this call too. Empty once `id` is known. */
  callers: readonly Call[];
}

/** The position that a rule returns to. `call` is `undefined` at the end of the text. */
interface Return {
  readonly state: number;
  readonly call: Call | undefined;
}

/** One parse of the text so far: the expression being matched, the state after it, and the call that contains it. */
export interface Thread {
  readonly expression: number;
  readonly next: number;
  readonly call: Call;
}

/** A special token that may come next. */
interface TokenEdge {
  readonly tokenId: number;
  readonly next: number;
  readonly call: Call;
}

interface OpenCall extends Call {
  readonly returns: Return[];
  readonly callers: Call[];
}

/** Collects everything that can come next. */
class Closure {
  readonly threads: Thread[] = [];
  readonly tokens: TokenEdge[] = [];
  /** Whether the text may end here. */
  canEnd = false;
  readonly #network: Network;
  /** Calls that begin here, by rule. */
  readonly #calls = new Map<number, OpenCall>();
  /** States that have been entered, by call. */
  readonly #entered = new Map<Call, Set<number>>();
  readonly #scanned = new Map<Call, Set<number>>();
  #numStates = 0;

  constructor(network: Network) {
    this.#network = network;
  }

  /** Whether nothing can come and the text cannot end: it does not match the grammar. */
  get isEmpty(): boolean {
    return this.threads.length === 0 && this.tokens.length === 0 && !this.canEnd;
  }

  /** Begins with a rule that makes up the whole text. */
  begin(rule: number): void {
    this.#callRule(rule, { returns: [{ state: -1, call: undefined }], callers: [] });
    if (this.#network.isNullable[rule]) this.canEnd = true;
  }

  /** Continues with the rest of an expression. */
  scan(expression: number, next: number, call: Call): void {
    if (this.#network.expressions.isNullable(expression)) this.enter(next, call);
    if (expression === EMPTY_TEXT) return;
    const scanned = getOrCreateSet(this.#scanned, call);
    const key = expression * this.#network.edges.length + next;
    if (scanned.has(key)) return;
    scanned.add(key);
    this.threads.push({ expression, next, call });
  }

  /** Continues from a state. */
  enter(first: number, firstCall: Call): void {
    const { edges, silent, isFinal, isLast, isNullable } = this.#network;
    const queue: [number, Call][] = [[first, firstCall]];
    for (const [state, call] of queue) {
      const entered = getOrCreateSet(this.#entered, call);
      if (entered.has(state)) continue;
      entered.add(state);
      if (++this.#numStates > MAX_STATES) throw new GrammarError("it is too ambiguous");
      for (const next of silent[state]!) queue.push([next, call]);
      // A call that begins here (its id is 0) may still get returns. If its rule is nullable, the caller continues
      // below.
      if (isFinal[state] && call.id !== 0) {
        for (const each of call.returns) {
          if (each.call === undefined) this.canEnd = true;
          else queue.push([each.state, each.call]);
        }
      }
      for (const { kind, value, next } of edges[state]!) {
        if (kind === "terminal") this.scan(value, next, call);
        else if (kind === "token") this.tokens.push({ tokenId: value, next, call });
        else {
          this.#callRule(value, {
            returns: isLast[next] ? [] : [{ state: next, call }],
            callers: isLast[next] ? [call] : [],
          });
          if (isNullable[value]) queue.push([next, call]);
        }
      }
    }
  }

  #callRule(rule: number, { returns, callers }: Pick<Call, "returns" | "callers">): void {
    const known = this.#calls.get(rule);
    const call = known ?? { id: 0, rule, returns: [], callers: [] };
    call.returns.push(...returns);
    call.callers.push(...callers);
    if (known !== undefined) return;
    this.#calls.set(rule, call);
    this.enter(this.#network.starts[rule]!, call);
  }
}

function getOrCreateSet(sets: Map<Call, Set<number>>, call: Call): Set<number> {
  let set = sets.get(call);
  if (set === undefined) sets.set(call, set = new Set());
  return set;
}

/** Lists the returns of a call whose callers are all known: its own, and those of all calls that end when it ends. */
function listReturns(call: Call): Return[] {
  const seen = new Set<Call>([call]);
  const returns: Return[] = [];
  for (const each of seen) {
    returns.push(...each.returns);
    each.callers.forEach((caller) => seen.add(caller));
  }
  return returns;
}
