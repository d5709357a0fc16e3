/**
 * Describes the format that an answer must have. A {@linkcode GrammarSpec} is plain data, which is made from a request
 * and sent to the worker; it is compiled to a {@linkcode Grammar}, and each answer has a {@linkcode GrammarMatcher}.
 *
 * @module
 */

/** The facts about a model's tokens that are needed to compile grammars. */
export interface GrammarTokens {
  /** Width of the logits. Token ids are smaller than this. */
  readonly vocabSize: number;
  /** The bytes that a token adds to the text; `undefined` for special tokens, which add none, and for unused ids. */
  getBytes(tokenId: number): Uint8Array | undefined;
  /** Ids of added tokens by their spelling, including special tokens. */
  readonly addedTokens: ReadonlyMap<string, number>;
  /** Tokens that end an answer. */
  readonly endTokenIds: ReadonlySet<number>;
}

/** A grammar compiled for one vocabulary, shared by any number of answers. */
export interface Grammar {
  /** Begins an answer. */
  createMatcher(): GrammarMatcher;
}

/** The state of one answer in its grammar. */
export interface GrammarMatcher {
  /**
   * A mask of the tokens that may come next. Tokens that end an answer are allowed exactly where the text is complete.
   * Token `t` is bit `t % 32` of word `t >> 5`: u32 `[ceil(vocabSize / 32)]`, valid until the next call of `accept`.
   *
   * @throws {GrammarError} when the grammar is too ambiguous or too complex to go on.
   */
  readonly mask: Uint32Array;
  /** Advances by a token that the mask allows. */
  accept(tokenId: number): void;
  /** Whether the text is complete and only a token that ends the answer may follow. */
  readonly isFinished: boolean;
}

/** An invalid grammar, or one that is too complex. The message is meant for the client. */
export class GrammarError extends Error {
  override readonly name = "GrammarError";
  /** Path of the fault in the request, if known. */
  readonly param: string | undefined;

  constructor(message: string, param?: string) {
    super(message);
    this.param = param;
  }
}

/**
 * Thrown when no value is valid for a schema. Schemas that require such a schema are impossible too; a choice may have
 * other options.
 */
export class ImpossibleError extends GrammarError {}

/** Returns what `make` returns, or the result of `otherwise` if a schema is impossible. */
export function orImpossible<T>(make: () => T, otherwise: (error: ImpossibleError) => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof ImpossibleError) return otherwise(error);
    throw error;
  }
}

/**
 * The document that contains a schema, and in which the schema's references are resolved. Absent if the schema is
 * itself the document.
 */
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
  /** One of these texts, spelled in ordinary tokens: a special token would add nothing to the answer. */
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  /** All of these in sequence. */
  | { readonly kind: "sequence"; readonly items: readonly GrammarSpec[] }
  /** One of these. */
  | { readonly kind: "any_of"; readonly options: readonly GrammarSpec[] }
  /** Parts in order, with separators in between. Parts that are not required may be left out. */
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
   * Any text, including special tokens, up to and including the first occurrence of the ending: reasoning up to
   * `</think>`.
   */
  | { readonly kind: "until"; readonly ending: string }
  /**
   * Free text up to one of the triggers. After a trigger comes text that matches its grammar, then free text again. The
   * answer may end anywhere in free text. (For strict tools with `tool_choice: "auto"`.)
   */
  | {
    readonly kind: "lazy";
    readonly triggers: readonly { readonly text: string; readonly then: GrammarSpec }[];
  };

/** Makes the spec of exactly this text. */
export function text(text: string): GrammarSpec {
  return { kind: "text", text };
}

/** Makes the spec of these items in sequence, leaving out empty texts. */
export function sequence(...items: readonly GrammarSpec[]): GrammarSpec {
  return {
    kind: "sequence",
    items: items.filter((each) => each.kind !== "text" || each.text !== ""),
  };
}
