/**
 * The rules of a grammar, and the networks of states to which they are compiled: one network for each rule. A network
 * can call the networks of other rules.
 *
 * @module
 */
import { type Expressions, NOTHING } from "./expressions.ts";
import { GrammarError } from "./grammar.ts";

export type Phrase =
  /** Text that the expression matches. */
  | { readonly kind: "terminal"; readonly expression: number }
  /** The special token with this id. */
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

export const EMPTY_PHRASE: Phrase = { kind: "sequence", items: [] };

/** Matches no text at all, not even the empty one. */
export const NEVER: Phrase = { kind: "any_of", options: [] };

export function terminal(expression: number): Phrase {
  return expression === NOTHING ? NEVER : { kind: "terminal", expression };
}

export function sequence(...items: Phrase[]): Phrase {
  return { kind: "sequence", items };
}

export function anyOf(options: readonly Phrase[]): Phrase {
  return { kind: "any_of", options };
}

/** Maximum number of states of all rules together. */
const MAX_STATES = 60_000;

/** Builds the rules of one grammar. */
export class Rules {
  readonly expressions: Expressions;
  readonly #phrases: (Phrase | undefined)[] = [];
  #impossible: GrammarError | undefined;

  constructor(expressions: Expressions) {
    this.expressions = expressions;
  }

  /** Declares a rule, which must be defined before `build`. */
  declare(): number {
    return this.#phrases.push(undefined) - 1;
  }

  define(rule: number, phrase: Phrase): void {
    this.#phrases[rule] = phrase;
  }

  /** Records why a part matches no text. The reason is reported if the whole grammar matches no text either. */
  noteImpossible(error: GrammarError): void {
    this.#impossible ??= error;
  }

  /** Makes a phrase a rule of its own, so that repetitions and choices refer to it instead of copying it. */
  asRule(phrase: Phrase): Phrase {
    if (phrase.kind !== "sequence" && phrase.kind !== "any_of" && phrase.kind !== "repeat") {
      return phrase;
    }
    const rule = this.declare();
    this.define(rule, phrase);
    return { kind: "rule", rule };
  }

  /** Builds the network. @throws {GrammarError} when it has too many states, or the root matches no text. */
  build(root: number): Network {
    const builder = new NetworkBuilder();
    const starts = this.#phrases.map((phrase) => {
      if (phrase === undefined) throw new TypeError("A rule was declared and not defined.");
      return builder.addRule(phrase);
    });
    const network = prune(builder, { expressions: this.expressions, starts, root });
    if (network === undefined) {
      throw this.#impossible ?? new GrammarError("no text can match it");
    }
    return network;
  }
}

class NetworkBuilder {
  readonly edges: Edge[][] = [];
  readonly silent: number[][] = [];
  readonly isFinal: boolean[] = [];
  readonly ruleByState: number[] = [];
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
        this.edges[from]!.push({ ...toEdge(phrase), next });
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
    return this.ruleByState.push(this.#rule) - 1;
  }
}

function toEdge(phrase: Exclude<Phrase, { kind: "sequence" | "any_of" | "repeat" }>) {
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

export const ANY_TOKEN = -1;

/** A transition from one state to another. */
type Edge =
  | { readonly kind: "terminal"; readonly value: number; readonly next: number }
  /** `value` is a token id, or `ANY_TOKEN`. */
  | { readonly kind: "token"; readonly value: number; readonly next: number }
  | { readonly kind: "rule"; readonly value: number; readonly next: number };

export interface Network {
  readonly expressions: Expressions;
  readonly edges: readonly (readonly Edge[])[];
  /** States reached without consuming text. */
  readonly silent: readonly (readonly number[])[];
  /** Whether a rule ends with the state. */
  readonly isFinal: readonly boolean[];
  /** Whether nothing but the end of its rule follows a state. */
  readonly isLast: readonly boolean[];
  /** The first state of each rule. */
  readonly starts: readonly number[];
  /** Whether a rule matches the empty text. */
  readonly isNullable: readonly boolean[];
  readonly root: number;
}

/** The states of all rules, before pruning. */
interface RawNetwork {
  readonly edges: readonly (readonly Edge[])[];
  readonly silent: readonly (readonly number[])[];
  readonly isFinal: readonly boolean[];
  /** The rule that each state belongs to. */
  readonly ruleByState: readonly number[];
}

/** Removes dead ends, so that every valid prefix can be completed. @returns `undefined` if no text is valid. */
function prune(
  raw: RawNetwork,
  { expressions, starts, root }: Pick<Network, "expressions" | "starts" | "root">,
): Network | undefined {
  const { silent, isFinal, ruleByState } = raw;
  const isAlive = (edge: Edge) => edge.kind !== "terminal" || !expressions.isEmpty(edge.value);
  const edges = raw.edges.map((each) => each.filter(isAlive));

  const callers = starts.map((): [number, number][] => []);
  const before = edges.map((): number[] => []);
  edges.forEach((each, state) => {
    for (const { kind, value, next } of each) {
      if (kind === "rule") callers[value]!.push([state, next]);
      else before[next]!.push(state);
    }
  });
  silent.forEach((each, state) => each.forEach((next) => before[next]!.push(state)));
  const isOfUse = spread(isFinal, { starts, ruleByState, before, callers });
  if (!isOfUse[starts[root]!]) return undefined;

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
    ruleByState,
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

/**
 * Finds the states after which only the end of the rule can follow. Such a state has no edges, and neither do the
 * states reached from it without text. One of these states is final.
 */
function findLast(
  edges: Network["edges"],
  silent: Network["silent"],
  isFinal: Network["isFinal"],
): boolean[] {
  const leaves = edges.map((each) => each.length > 0);
  // Repeated until nothing changes, because a silent transition may lead to a state with a higher or a lower number.
  for (let changed = true; changed;) {
    changed = false;
    for (let state = edges.length - 1; state >= 0; state--) {
      if (leaves[state] || !silent[state]!.some((next) => leaves[next])) continue;
      leaves[state] = changed = true;
    }
  }
  return leaves.map((does, state) => !does && (isFinal[state]! || silent[state]!.length > 0));
}

/** Finds the states from which a final state can be reached, through rules that can be completed. */
function spread(isFinal: readonly boolean[], parts: {
  readonly starts: readonly number[];
  readonly ruleByState: readonly number[];
  /** For each state, the states that lead to it. */
  readonly before: readonly (readonly number[])[];
  /** For each rule, the states before and after its calls. */
  readonly callers: readonly (readonly [number, number][])[];
}): boolean[] {
  const { starts, ruleByState, before, callers } = parts;
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
    const rule = ruleByState[state]!;
    if (starts[rule] !== state) continue;
    for (const [from, next] of callers[rule]!) if (reaches[next]) add(from);
  }
  return reaches;
}
