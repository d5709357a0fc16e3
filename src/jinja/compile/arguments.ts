/**
 * Compiles the arguments of calls, filters and tests.
 *
 * @module
 */
import { Dict } from "../python/dict.ts";
import { iterate } from "../python/iterate.ts";
import { type Arguments, getTypeName, NO_NAMED, type Value } from "../python/values.ts";
import type { CallArguments, Expression } from "../syntax/nodes.ts";
import { raise } from "../template_error.ts";
import type { Evaluate, Frame } from "./frame.ts";

const NO_ARGUMENTS: Arguments = { positional: [], named: NO_NAMED };

/** The arguments of a call. */
export function compileArguments(
  { positional, named, rest, restNamed }: CallArguments,
  compile: (node: Expression) => Evaluate,
): (frame: Frame) => Arguments {
  if (
    positional.length === 0 && named.length === 0 && rest === undefined && restNamed === undefined
  ) {
    return () => NO_ARGUMENTS;
  }
  const values = positional.map(compile);
  const pairs = named.map(({ name, value }) => [name, compile(value)] as const);
  requireDistinct(pairs.map(([name]) => name));
  const [others, otherPairs] = [rest, restNamed].map((each) => each && compile(each));
  return (frame) => {
    const all = values.map((each) => each(frame));
    if (others !== undefined) all.push(...iterate(others(frame)));
    if (pairs.length === 0 && otherPairs === undefined) return { positional: all, named: NO_NAMED };
    const byName = new Map<string, Value>();
    for (const [name, value] of pairs) byName.set(name, value(frame));
    if (otherPairs !== undefined) addNamed(byName, otherPairs(frame));
    return { positional: all, named: byName };
  };
}

function requireDistinct(names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice !== undefined) raise("TemplateSyntaxError", `keyword argument repeated: ${twice}`);
}

function addNamed(byName: Map<string, Value>, values: Value): void {
  if (!(values instanceof Dict)) {
    raise("TypeError", `argument after ** must be a mapping, not ${getTypeName(values)}`);
  }
  for (const [key, value] of (values as Dict).entries()) {
    if (typeof key !== "string") raise("TypeError", "keywords must be strings");
    if (byName.has(key as string)) {
      raise("TypeError", `got multiple values for keyword argument '${key}'`);
    }
    byName.set(key as string, value);
  }
}
