/**
 * The closure of a grammar's states: everything that can come next.
 *
 * @module
 */
import { EMPTY_TEXT } from "./expressions.ts";
import { GrammarError } from "./grammar.ts";
import type { Network } from "./network.ts";

/** Most states that a single byte may lead through. */
const MAX_STATES = 20_000;

/** A call of a rule that has not ended. */
export interface Call {
  /** Identifies the call; 0 until its callers are known. */
  id: number;
  readonly rule: number;
  /** Where to continue when the rule ends. */
  returns: readonly Return[];
  /** Callers in tail position, whose returns are returns of this call too. Empty once `id` is known. */
  callers: readonly Call[];
}

/** Where a rule returns to. `call` is `undefined` at the end of the text. */
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
export interface TokenEdge {
  readonly tokenId: number;
  readonly next: number;
  readonly call: Call;
}

interface OpenCall extends Call {
  readonly returns: Return[];
  readonly callers: Call[];
}

/** Collects everything that can come next. */
export class Closure {
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
      // For a call that begins here, it is already known whether the rule matches the empty text.
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

/** Lists the returns of a call whose callers are all known: its own, and those of calls that end along with it. */
export function listReturns(call: Call): Return[] {
  const seen = new Set<Call>([call]);
  const returns: Return[] = [];
  for (const each of seen) {
    returns.push(...each.returns);
    each.callers.forEach((caller) => seen.add(caller));
  }
  return returns;
}
