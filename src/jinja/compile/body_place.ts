import type { Statement } from "../syntax/nodes.ts";
import type { ExpressionContext } from "./expressions.ts";
import type { Execute, Frame } from "./frame.ts";
import type { Scope } from "./symbols.ts";

/** The context in which a statement is compiled. */
export interface BodyContext {
  readonly scope: Scope;
  /** Whether names that it assigns become variables of the template. */
  readonly isTop: boolean;
  readonly isInLoop: boolean;
  readonly isConditional: boolean;
  /** The template's blocks by name. */
  readonly blocks: Map<string, (frame: Frame) => string>;
  readonly counter: { count: number };
}

/** The context for the expressions of a statement. */
export function toExpressionContext(
  { scope, isConditional, counter }: BodyContext,
): ExpressionContext {
  return { scope, isConditional, count: () => counter.count++ };
}

/**
 * Compiles the statements of a body. It is passed to the functions that compile single statements, which need it for
 * their own bodies.
 */
export type CompileBody = (body: readonly Statement[], context: BodyContext) => Execute;
