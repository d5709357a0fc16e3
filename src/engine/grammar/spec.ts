/**
 * The format of an answer: plain data, made from a request and sent between threads.
 *
 * @module
 */

/** What a schema is a part of, if it is not whole: what its references are about. */
interface SchemaDocumentSpec {
  readonly schema: unknown;
  readonly param: string;
}

/** An expression that an answer, or a part of one, must match from beginning to end. */
export type GrammarSpec =
  /** A JSON value that the schema accepts. */
  | {
    readonly kind: "json_schema";
    /** An object or a boolean, of any draft. */
    readonly schema: unknown;
    /** The schema's path in the request, for messages: `response_format.json_schema.schema`. */
    readonly param: string;
    readonly within?: SchemaDocumentSpec;
  }
  /** A string that the schema accepts, as it is: not as JSON. */
  | {
    readonly kind: "string";
    readonly schema: unknown;
    readonly param: string;
    readonly within?: SchemaDocumentSpec;
    /** Occurs nowhere in it. */
    readonly without: string;
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
  /** These in sequence. */
  | { readonly kind: "sequence"; readonly items: readonly GrammarSpec[] }
  /** One of these. */
  | { readonly kind: "any_of"; readonly options: readonly GrammarSpec[] }
  /** Parts in order between separators; those that are not required may be left out. */
  | {
    readonly kind: "list";
    readonly items: readonly { readonly isRequired: boolean; readonly grammar: GrammarSpec }[];
    readonly separator: string;
  }
  /** `min` to `max` times, without an end where `max` is absent. */
  | {
    readonly kind: "repeat";
    readonly item: GrammarSpec;
    readonly min: number;
    readonly max?: number | undefined;
  }
  /**
   * Any text, other special tokens included, up to and with the first of these endings: thought until `</think>`.
   * `then` follows it.
   */
  | { readonly kind: "until"; readonly ending: string }
  /**
   * Free text until one of the triggers: the text after a trigger must match its grammar, then it is free again. The
   * answer may end wherever it is free. (Strict tools with `auto`.)
   */
  | {
    readonly kind: "lazy";
    readonly triggers: readonly { readonly text: string; readonly then: GrammarSpec }[];
  };

/** This text. */
export function text(text: string): GrammarSpec {
  return { kind: "text", text };
}

/** These in sequence, empty texts left out. */
export function sequence(...items: readonly GrammarSpec[]): GrammarSpec {
  return {
    kind: "sequence",
    items: items.filter((each) => each.kind !== "text" || each.text !== ""),
  };
}
