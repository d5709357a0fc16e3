/**
 * The syntax tree of a template.
 *
 * @module
 */
import type { Value } from "../python/values.ts";
import type { BinaryOperator } from "../python/arithmetic.ts";

export interface CallArguments {
  readonly positional: readonly Expression[];
  readonly named: readonly { readonly name: string; readonly value: Expression }[];
  /** The argument `*args`. */
  readonly rest: Expression | undefined;
  /** The argument `**kwargs`. */
  readonly restNamed: Expression | undefined;
}

export interface NameNode {
  readonly kind: "name";
  readonly name: string;
}

interface TupleNode {
  readonly kind: "tuple";
  readonly items: readonly Expression[];
}

export type CompareOperator = "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in";

export interface FilterNode {
  readonly kind: "filter";
  readonly name: string;
  /** Absent if the filter is applied to the text of a block. */
  readonly value: Expression | undefined;
  readonly args: CallArguments;
}

interface CallNode {
  readonly kind: "call";
  readonly callee: Expression;
  readonly args: CallArguments;
}

export type Expression =
  | { readonly kind: "constant"; readonly value: Value }
  | NameNode
  | TupleNode
  | FilterNode
  | CallNode
  | { readonly kind: "list"; readonly items: readonly Expression[] }
  | { readonly kind: "dict"; readonly entries: readonly (readonly [Expression, Expression])[] }
  | {
    readonly kind: "binary";
    readonly operator: BinaryOperator;
    readonly left: Expression;
    readonly right: Expression;
  }
  | { readonly kind: "unary"; readonly operator: "-" | "+" | "not"; readonly value: Expression }
  | {
    readonly kind: "logic";
    readonly operator: "and" | "or";
    readonly left: Expression;
    readonly right: Expression;
  }
  | { readonly kind: "concat"; readonly items: readonly Expression[] }
  | {
    readonly kind: "compare";
    readonly first: Expression;
    readonly others: readonly { readonly operator: CompareOperator; readonly value: Expression }[];
  }
  | { readonly kind: "attribute"; readonly value: Expression; readonly name: string }
  | { readonly kind: "item"; readonly value: Expression; readonly key: Expression }
  | {
    readonly kind: "slice";
    readonly start: Expression | undefined;
    readonly stop: Expression | undefined;
    readonly step: Expression | undefined;
  }
  | {
    readonly kind: "test";
    readonly name: string;
    readonly value: Expression;
    readonly args: CallArguments;
  }
  | {
    readonly kind: "condition";
    readonly test: Expression;
    readonly then: Expression;
    readonly otherwise: Expression | undefined;
    readonly line: number;
  };

/** A variable of a namespace as the target of `set`. */
interface NamespaceTarget {
  readonly kind: "namespace";
  readonly name: string;
  readonly attribute: string;
}

export type Target = NameNode | TupleNode | NamespaceTarget;

/** The parameters of a macro or of a `call` block. */
export interface Signature {
  readonly params: readonly string[];
  /** Default values of the last parameters. */
  readonly defaults: readonly Expression[];
}

export interface ForNode {
  readonly kind: "for";
  readonly target: Target;
  readonly values: Expression;
  readonly test: Expression | undefined;
  readonly isRecursive: boolean;
  readonly body: readonly Statement[];
  readonly otherwise: readonly Statement[];
}

export interface IfNode {
  readonly kind: "if";
  readonly test: Expression;
  readonly body: readonly Statement[];
  readonly elifs: readonly { readonly test: Expression; readonly body: readonly Statement[] }[];
  readonly otherwise: readonly Statement[];
}

export interface MacroNode extends Signature {
  readonly kind: "macro";
  readonly name: string;
  readonly body: readonly Statement[];
}

export interface CallBlockNode extends Signature {
  readonly kind: "call block";
  readonly call: CallNode;
  readonly body: readonly Statement[];
}

export interface WithNode {
  readonly kind: "with";
  readonly targets: readonly Target[];
  readonly values: readonly Expression[];
  readonly body: readonly Statement[];
}

export interface SetBlockNode {
  readonly kind: "set block";
  readonly target: Target;
  readonly filter: FilterNode | undefined;
  readonly body: readonly Statement[];
}

export interface FilterBlockNode {
  readonly kind: "filter block";
  readonly filter: FilterNode;
  readonly body: readonly Statement[];
}

export interface BlockNode {
  readonly kind: "block";
  readonly name: string;
  readonly isScoped: boolean;
  /** Whether a child template must fill the block. */
  readonly isRequired: boolean;
  readonly body: readonly Statement[];
}

export interface AutoescapeNode {
  readonly kind: "autoescape";
  readonly value: Expression;
  readonly body: readonly Statement[];
}

export type Statement =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "print"; readonly values: readonly Expression[] }
  | { readonly kind: "set"; readonly target: Target; readonly value: Expression }
  | ForNode
  | IfNode
  | MacroNode
  | CallBlockNode
  | WithNode
  | SetBlockNode
  | FilterBlockNode
  | BlockNode
  | AutoescapeNode
  | { readonly kind: "break" | "continue" }
  /** `include`, `import` or `extends`, which always fail: a model's folder has only one template. */
  | { readonly kind: "load"; readonly names: readonly string[]; readonly value: Expression };
