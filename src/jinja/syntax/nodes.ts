/**
 * The syntax tree of a template, and functions that walk it.
 *
 * @module
 */
import type { Value } from "../python/values.ts";
import type { BinaryOperator } from "../python/arithmetic.ts";
import { charge } from "../meter.ts";

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
  /** `include`, `import`, `from` or `extends`, which always fail, because a template cannot load others. */
  | { readonly kind: "load"; readonly value: Expression };

function listExpressions(
  { positional, named, rest, restNamed }: CallArguments,
): (Expression | undefined)[] {
  return [...positional, ...named.map(({ value }) => value), rest, restNamed];
}

/** The direct parts of an expression. */
export function listSubexpressions(node: Expression): readonly (Expression | undefined)[] {
  switch (node.kind) {
    case "constant":
    case "name":
      return [];
    case "tuple":
    case "list":
    case "concat":
      return node.items;
    case "dict":
      return node.entries.flat();
    case "binary":
    case "logic":
      return [node.left, node.right];
    case "unary":
    case "attribute":
      return [node.value];
    case "compare":
      return [node.first, ...node.others.map(({ value }) => value)];
    case "item":
      return [node.value, node.key];
    case "slice":
      return [node.start, node.stop, node.step];
    case "filter":
    case "test":
      return [node.value, ...listExpressions(node.args)];
    case "call":
      return [node.callee, ...listExpressions(node.args)];
    case "condition":
      return [node.test, node.then, node.otherwise];
  }
}

/** The expressions of a statement, except those in its body. */
function listStatementExpressions(node: Statement): readonly (Expression | undefined)[] {
  switch (node.kind) {
    case "print":
      return node.values;
    case "set":
    case "load":
    case "autoescape":
      return [node.value];
    case "for":
      return [node.values, node.test];
    case "if":
      return [node.test, ...node.elifs.map(({ test }) => test)];
    case "macro":
      return node.defaults;
    case "call block":
      return [node.call, ...node.defaults];
    case "with":
      return node.values;
    case "set block":
    case "filter block":
      return [node.filter];
    default:
      return [];
  }
}

function listBodies(node: Statement): readonly Statement[] {
  switch (node.kind) {
    case "for":
      return [...node.body, ...node.otherwise];
    case "if":
      return [...node.body, ...node.elifs.flatMap(({ body }) => body), ...node.otherwise];
    default:
      return "body" in node ? node.body : [];
  }
}

/** The targets that a statement assigns to. */
export function listTargets(node: Statement): readonly (Target | Expression)[] {
  switch (node.kind) {
    case "set":
    case "set block":
    case "for":
      return [node.target];
    case "with":
      return node.targets;
    default:
      return [];
  }
}

/** Whether these statements, or statements nested in them, read a name. */
export function readsName(statements: readonly Statement[], name: string): boolean {
  charge(statements.length);
  return statements.some((statement) =>
    listStatementExpressions(statement).some((each) => hasName(each, name)) ||
    readsName(listBodies(statement), name)
  );
}

function hasName(node: Expression | undefined, name: string): boolean {
  if (node === undefined) return false;
  if (node.kind === "name") return node.name === name;
  return listSubexpressions(node).some((each) => hasName(each, name));
}

/** All statements, including nested ones. */
export function* allStatements(statements: readonly Statement[]): Generator<Statement> {
  for (const statement of statements) {
    charge(1);
    yield statement;
    yield* allStatements(listBodies(statement));
  }
}

/** Whether assigning to a target assigns the variable `name`. */
export function assignsName(target: Target | Expression, name: string): boolean {
  if (target.kind === "tuple") return target.items.some((each) => assignsName(each, name));
  return target.kind === "name" && target.name === name;
}
