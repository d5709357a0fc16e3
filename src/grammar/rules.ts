/**
 * A grammar as networks of states, one for each rule, that call each other.
 *
 * @module
 */
import type { Expressions } from "./expressions.ts";
import { GrammarError } from "./grammar_error.ts";

/** What a rule matches. */
export type Phrase =
  /** A text that the expression matches. */
  | { readonly kind: "terminal"; readonly expression: number }
  /** The special token of this id. */
  | { readonly kind: "token"; readonly tokenId: number }
  /** Any special token that does not end the answer. */
  | { readonly kind: "any_token" }
  | { readonly kind: "rule"; readonly rule: number }
  | { readonly kind: "sequence"; readonly items: readonly Phrase[] }
  | { readonly kind: "any_of"; readonly options: readonly Phrase[] }
  | {
    readonly kind: "repeat";
    readonly item: Phrase;
    readonly min: number;
    readonly max: number;
  };

export const ANY_TOKEN = -1;
export const EMPTY_PHRASE: Phrase = { kind: "sequence", items: [] };

/** A transition from a state to the next. */
export type Edge =
  | { readonly kind: "terminal"; readonly value: number; readonly next: number }
  /** `value` is a token id, or `ANY_TOKEN`. */
  | { readonly kind: "token"; readonly value: number; readonly next: number }
  | { readonly kind: "rule"; readonly value: number; readonly next: number };

export interface Network {
  readonly expressions: Expressions;
  readonly edges: readonly (readonly Edge[])[];
  /** States reached by the empty text. */
  readonly silent: readonly (readonly number[])[];
  /** Whether a rule ends with the state. */
  readonly isFinal: readonly boolean[];
  /** Whether only the end of its rule follows a state. */
  readonly isLast: readonly boolean[];
  /** The first state of each rule. */
  readonly starts: readonly number[];
  /** Whether a rule matches the empty text. */
  readonly isNullable: readonly boolean[];
  readonly root: number;
}

/** Most states of all rules together. */
const MAX_STATES = 60_000;

/** Builds the rules of one grammar. */
export class Rules {
  readonly expressions: Expressions;
  readonly #phrases: (Phrase | undefined)[] = [];

  constructor(expressions: Expressions) {
    this.expressions = expressions;
  }

  /** Declares a rule; `define` it before `build`. */
  declare(): number {
    return this.#phrases.push(undefined) - 1;
  }

  define(rule: number, phrase: Phrase): void {
    this.#phrases[rule] = phrase;
  }

  /** A phrase as a rule of its own, so that repetitions and choices refer to it instead of copying it. */
  asRule(phrase: Phrase): Phrase {
    if (phrase.kind !== "sequence" && phrase.kind !== "any_of" && phrase.kind !== "repeat") {
      return phrase;
    }
    const rule = this.declare();
    this.define(rule, phrase);
    return { kind: "rule", rule };
  }

  /** @throws {GrammarError} when there are too many states, or the root matches no text. */
  build(root: number): Network {
    const builder = new NetworkBuilder();
    const starts = this.#phrases.map((phrase) => {
      if (phrase === undefined) throw new TypeError("A rule was declared and not defined.");
      return builder.addRule(phrase);
    });
    return prune(builder, { expressions: this.expressions, starts, root });
  }
}

class NetworkBuilder {
  readonly edges: Edge[][] = [];
  readonly silent: number[][] = [];
  readonly isFinal: boolean[] = [];
  readonly ruleOf: number[] = [];
  #rule = -1;

  addRule(phrase: Phrase): number {
    this.#rule++;
    const start = this.#addState();
    this.isFinal[this.#add(phrase, start)] = true;
    return start;
  }

  /** Adds the transitions of a phrase from a state. @returns the state after it. */
  #add(phrase: Phrase, from: number): number {
    switch (phrase.kind) {
      case "sequence":
        return phrase.items.reduce((state, item) => this.#add(item, state), from);
      case "any_of": {
        const end = this.#addState();
        for (const option of phrase.options) {
          const start = this.#addState();
          this.silent[from]!.push(start);
          this.silent[this.#add(option, start)]!.push(end);
        }
        return end;
      }
      case "repeat":
        return this.#addRepeat(phrase, from);
      default: {
        const next = this.#addState();
        this.edges[from]!.push({ ...edgeOf(phrase), next });
        return next;
      }
    }
  }

  #addRepeat({ item, min, max }: Extract<Phrase, { kind: "repeat" }>, from: number): number {
    let state = from;
    for (let i = 0; i < min; i++) state = this.#add(item, state);
    const end = this.#addState();
    if (max === Infinity) {
      const loop = this.#addState();
      this.silent[state]!.push(loop);
      this.silent[this.#add(item, loop)]!.push(loop);
      this.silent[loop]!.push(end);
      return end;
    }
    for (let i = min; i < max; i++) {
      this.silent[state]!.push(end);
      state = this.#add(item, state);
    }
    this.silent[state]!.push(end);
    return end;
  }

  #addState(): number {
    if (this.edges.length >= MAX_STATES) {
      throw new GrammarError(`it needs more than ${MAX_STATES} states`);
    }
    this.edges.push([]);
    this.silent.push([]);
    this.isFinal.push(false);
    return this.ruleOf.push(this.#rule) - 1;
  }
}

function edgeOf(phrase: Exclude<Phrase, { kind: "sequence" | "any_of" | "repeat" }>) {
  switch (phrase.kind) {
    case "terminal":
      return { kind: "terminal", value: phrase.expression } as const;
    case "token":
      return { kind: "token", value: phrase.tokenId } as const;
    case "any_token":
      return { kind: "token", value: ANY_TOKEN } as const;
    case "rule":
      return { kind: "rule", value: phrase.rule } as const;
  }
}

/** Removes dead ends, so that every valid prefix can be completed. */
function prune(
  builder: NetworkBuilder,
  { expressions, starts, root }: Pick<Network, "expressions" | "starts" | "root">,
): Network {
  const { silent, isFinal, ruleOf } = builder;
  const isAlive = (edge: Edge) => edge.kind !== "terminal" || !expressions.isEmpty(edge.value);
  const edges = builder.edges.map((each) => each.filter(isAlive));

  const callers = starts.map((): [number, number][] => []);
  const before = edges.map((): number[] => []);
  edges.forEach((each, state) => {
    for (const { kind, value, next } of each) {
      if (kind === "rule") callers[value]!.push([state, next]);
      else before[next]!.push(state);
    }
  });
  silent.forEach((each, state) => each.forEach((next) => before[next]!.push(state)));
  const isOfUse = spread(isFinal, { starts, ruleOf, before, callers });
  if (!isOfUse[starts[root]!]) throw new GrammarError("no text can match it");

  const silently = edges.map((): number[] => []);
  const silentCallers = starts.map((): [number, number][] => []);
  edges.forEach((each, state) => {
    for (const { kind, value, next } of each) {
      if (kind === "rule") silentCallers[value]!.push([state, next]);
      else if (kind === "terminal" && expressions.isNullable(value)) silently[next]!.push(state);
    }
  });
  silent.forEach((each, state) => each.forEach((next) => silently[next]!.push(state)));
  const endsSilently = spread(isFinal, {
    starts,
    ruleOf,
    before: silently,
    callers: silentCallers,
  });

  const kept = edges.map((each) =>
    each.filter(({ kind, value, next }) =>
      isOfUse[next] && (kind !== "rule" || isOfUse[starts[value]!])
    )
  );
  const keptSilent = silent.map((each) => each.filter((next) => isOfUse[next]));
  return {
    expressions,
    starts,
    root,
    isFinal,
    isLast: findLast(kept, keptSilent, isFinal),
    edges: kept,
    silent: keptSilent,
    isNullable: starts.map((start) => endsSilently[start]!),
  };
}

/** A state is last when no edge leaves it or its empty closure, and one of those states is final. */
function findLast(
  edges: Network["edges"],
  silent: Network["silent"],
  isFinal: Network["isFinal"],
): boolean[] {
  const leaves = edges.map((each) => each.length > 0);
  // States reached by the empty text come after those that lead to them, except for loops, which have edges.
  for (let changed = true; changed;) {
    changed = false;
    for (let state = edges.length - 1; state >= 0; state--) {
      if (leaves[state] || !silent[state]!.some((next) => leaves[next])) continue;
      leaves[state] = changed = true;
    }
  }
  return leaves.map((does, state) => !does && (isFinal[state]! || silent[state]!.length > 0));
}

/** The states from which a final one can be reached through rules that can be completed. */
function spread(isFinal: readonly boolean[], parts: {
  readonly starts: readonly number[];
  readonly ruleOf: readonly number[];
  /** States from which a state is reached. */
  readonly before: readonly (readonly number[])[];
  /** Per rule, the states from which and to which it leads. */
  readonly callers: readonly (readonly [number, number][])[];
}): boolean[] {
  const { starts, ruleOf, before, callers } = parts;
  const reaches = [...isFinal];
  const queue = reaches.flatMap((is, state) => is ? [state] : []);
  const add = (state: number) => {
    if (reaches[state]) return;
    reaches[state] = true;
    queue.push(state);
  };
  const waiting = before.map((): number[] => []);
  callers.forEach((each, rule) =>
    each.forEach(([state, next]) => waiting[next]!.push(state, rule))
  );
  for (const state of queue) {
    before[state]!.forEach(add);
    for (let i = 0; i < waiting[state]!.length; i += 2) {
      const [from, rule] = [waiting[state]![i]!, waiting[state]![i + 1]!];
      if (reaches[starts[rule]!]) add(from);
    }
    const rule = ruleOf[state]!;
    if (starts[rule] !== state) continue;
    for (const [from, next] of callers[rule]!) if (reaches[next]) add(from);
  }
  return reaches;
}
