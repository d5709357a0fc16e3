/**
 * Walks the syntax tree.
 *
 * @module
 */
import { charge } from "../meter.ts";
import type { CallArguments, Expression, Statement, Target } from "../syntax/nodes.ts";

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

/** The bodies of a statement. */
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
