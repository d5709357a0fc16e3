/**
 * What an answer must look like: plain data that crosses between threads, made from requests.
 *
 * @module
 */

/** An expression that an answer, or a part of one, must match from beginning to end. */
export type GrammarSpec =
  /** A JSON value that the schema accepts. */
  | {
    readonly kind: "json_schema";
    /** An object or a boolean, of any draft. */
    readonly schema: unknown;
    /** Where the schema stands in the request, for messages: `response_format.json_schema.schema`. */
    readonly param: string;
  }
  /** Any JSON object. */
  | { readonly kind: "json_object" }
  /** ECMA-262, matched against the whole text. */
  | { readonly kind: "regex"; readonly pattern: string; readonly param: string }
  /** A grammar in llama.cpp's GBNF, which xgrammar's EBNF is too; its rule `root`. */
  | { readonly kind: "gbnf"; readonly text: string; readonly param: string }
  /** This text. Where it spells a special token of the model, that token; `<tool_call>` in most vocabularies. */
  | { readonly kind: "text"; readonly text: string }
  /** One of these texts. */
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  /** One after the other. */
  | { readonly kind: "sequence"; readonly items: readonly GrammarSpec[] }
  /** One of these. */
  | { readonly kind: "any_of"; readonly options: readonly GrammarSpec[] }
  /** `min` to `max` times, without an end where `max` is absent. */
  | {
    readonly kind: "repeat";
    readonly item: GrammarSpec;
    readonly min: number;
    readonly max?: number | undefined;
  }
  /**
   * Any text, other special tokens included, up to and with the first of these endings: thought until `</think>`. What
   * is `then` follows it.
   */
  | { readonly kind: "until"; readonly ending: string }
  /**
   * Any text, which binds nothing before one of the triggers comes: the text after a trigger must match what stands
   * beside it, and is free again behind that. The answer may end wherever it is free. (Strict tools with `auto`.)
   */
  | {
    readonly kind: "lazy";
    readonly triggers: readonly { readonly text: string; readonly then: GrammarSpec }[];
  };
