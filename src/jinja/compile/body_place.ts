import type { Statement } from "../syntax/nodes.ts";
import type { Place } from "./expressions.ts";
import type { Execute, Frame } from "./frame.ts";
import type { Scope } from "./symbols.ts";

/** Where a statement stands. */
export interface BodyPlace {
  readonly scope: Scope;
  /** Whether what it assigns is the template's own. */
  readonly isTop: boolean;
  readonly isInLoop: boolean;
  readonly isConditional: boolean;
  /** The template's blocks by name. */
  readonly blocks: Map<string, (frame: Frame) => string>;
  readonly counter: { count: number };
}

/** A place as expressions need it. */
export function expressionPlace({ scope, isConditional, counter }: BodyPlace): Place {
  return { scope, isConditional, count: () => counter.count++ };
}

/** Compiles the statements of a body. What compiles single statements is given it, since it compiles those itself. */
export type CompileBody = (body: readonly Statement[], place: BodyPlace) => Execute;
