/**
 * The rules of a grammar, and the states that they are compiled to.
 *
 * @module
 */
import { type Expressions, NOTHING } from "./expressions.ts";
import { GrammarError } from "./grammar.ts";
import { ANY_TOKEN, type Edge, type Network, prune } from "./network.ts";

/** A part of a rule. */
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

/** Matches no text. */
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

/** Most states of all rules together. */
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

  /** Remembers why a part matches no text. It is reported if the whole grammar matches none either. */
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
  readonly getRule: number[] = [];
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
    return this.getRule.push(this.#rule) - 1;
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
