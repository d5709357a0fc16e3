/**
 * The format that an answer must have: plain data, made from a request and sent between threads.
 *
 * @module
 */

/** The document that a schema is part of, in which its references are resolved; absent for a whole document. */
interface SchemaDocumentSpec {
  readonly schema: unknown;
  readonly param: string;
}

/** A format that an answer, or a part of one, must match from beginning to end. */
export type GrammarSpec =
  /** A JSON value that the schema accepts. */
  | {
    readonly kind: "json_schema";
    /** A JSON schema of any draft: an object or a boolean. */
    readonly schema: unknown;
    /** Path of the schema in the request, for error messages: `response_format.json_schema.schema`. */
    readonly param: string;
    readonly within?: SchemaDocumentSpec;
  }
  /** A string that the schema accepts, written as plain text rather than JSON. */
  | {
    readonly kind: "string";
    readonly schema: unknown;
    readonly param: string;
    readonly within?: SchemaDocumentSpec;
    /** A text that must not occur in the string. */
    readonly without: string;
  }
  /** Any JSON object. */
  | { readonly kind: "json_object" }
  /** An ECMA-262 pattern, matched against the whole text. */
  | { readonly kind: "regex"; readonly pattern: string; readonly param: string }
  /** A grammar in llama.cpp's GBNF, of which xgrammar's EBNF is a variant; it begins with the rule `root`. */
  | { readonly kind: "gbnf"; readonly text: string; readonly param: string }
  /**
   * Exactly this text. If it spells a special token of the model, that token is meant, as with `<tool_call>` in most
   * vocabularies.
   */
  | { readonly kind: "text"; readonly text: string }
  /** One of these texts. */
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  /** All of these in sequence. */
  | { readonly kind: "sequence"; readonly items: readonly GrammarSpec[] }
  /** One of these. */
  | { readonly kind: "any_of"; readonly options: readonly GrammarSpec[] }
  /** Parts in order, with separators in between; those that are not required may be left out. */
  | {
    readonly kind: "list";
    readonly items: readonly { readonly isRequired: boolean; readonly grammar: GrammarSpec }[];
    readonly separator: string;
  }
  /** The item repeated `min` to `max` times; without limit if `max` is absent. */
  | {
    readonly kind: "repeat";
    readonly item: GrammarSpec;
    readonly min: number;
    readonly max?: number | undefined;
  }
  /**
   * Any text, including other special tokens, up to and including the first of these endings: thought until `</think>`.
   * It is followed by `then`.
   */
  | { readonly kind: "until"; readonly ending: string }
  /**
   * Free text up to one of the triggers. The text after a trigger must match its grammar, and is then free again. The
   * answer may end wherever it is free. (For strict tools with `auto`.)
   */
  | {
    readonly kind: "lazy";
    readonly triggers: readonly { readonly text: string; readonly then: GrammarSpec }[];
  };

/** Makes a spec of exactly this text. */
export function text(text: string): GrammarSpec {
  return { kind: "text", text };
}

/** Makes a spec of these in sequence, leaving out empty texts. */
export function sequence(...items: readonly GrammarSpec[]): GrammarSpec {
  return {
    kind: "sequence",
    items: items.filter((each) => each.kind !== "text" || each.text !== ""),
  };
}
