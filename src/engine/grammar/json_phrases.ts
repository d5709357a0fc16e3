/**
 * Phrases for JSON's punctuation, and for values written out.
 *
 * @module
 */
import { type Expressions, NOTHING } from "./expressions.ts";
import { whitespace } from "./json_text.ts";
import type { Phrase } from "./rules.ts";

/** Matches no text. */
export const NEVER: Phrase = { kind: "any_of", options: [] };

/** The punctuation marks with the white space that may stand beside them. */
export class JsonPhrases {
  readonly comma: Phrase;
  readonly colon: Phrase;
  readonly openArray: Phrase;
  readonly closeArray: Phrase;
  readonly openObject: Phrase;
  readonly closeObject: Phrase;
  readonly #expressions: Expressions;

  constructor(expressions: Expressions) {
    this.#expressions = expressions;
    const space = whitespace(expressions);
    const behind = (mark: string) => terminal(expressions.concat([expressions.text(mark), space]));
    const before = (mark: string) => terminal(expressions.concat([space, expressions.text(mark)]));
    this.comma = behind(",");
    this.colon = behind(":");
    this.openArray = behind("[");
    this.closeArray = before("]");
    this.openObject = behind("{");
    this.closeObject = before("}");
  }

  /** This text as it is. */
  text(text: string): Phrase {
    return terminal(this.#expressions.text(text));
  }

  /** A value, its members in their order. */
  value(value: unknown): Phrase {
    if (typeof value !== "object" || value === null) return this.text(JSON.stringify(value));
    if (Array.isArray(value)) {
      const items = this.#separated(value.map((each) => [this.value(each)]));
      return sequence(this.openArray, ...items, this.closeArray);
    }
    const members = this.#separated(
      Object.entries(value).map(([name, each]) => [
        this.text(JSON.stringify(name)),
        this.colon,
        this.value(each),
      ]),
    );
    return sequence(this.openObject, ...members, this.closeObject);
  }

  #separated(parts: readonly Phrase[][]): Phrase[] {
    return parts.flatMap((each, i) => i === 0 ? each : [this.comma, ...each]);
  }
}

export function terminal(expression: number): Phrase {
  return expression === NOTHING ? NEVER : { kind: "terminal", expression };
}

export function sequence(...items: Phrase[]): Phrase {
  return { kind: "sequence", items };
}
