/**
 * The inputs and outputs that graphs must have, and those that they may have.
 *
 * @module
 */
import { type Setting, StartupError } from "../errors.ts";
import type { GraphSession } from "../onnx/runtime/ort.ts";

/** Names that a graph must have. */
export interface WantedPorts {
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
  /** What the graph is called where it lacks one: `onnx/model.onnx`. */
  readonly of: string;
  /** The setting that chose the graph, if one did. */
  readonly setting?: Setting | undefined;
}

/** @returns the session. @throws {StartupError} naming what it has and what is wanted, when it lacks an input or an output. */
export function requirePorts(session: GraphSession, wanted: WantedPorts): GraphSession {
  for (const what of ["inputs", "outputs"] as const) {
    const names = session[what].map(({ name }) => name);
    const needed = wanted[what] ?? [];
    if (needed.every((name) => names.includes(name))) continue;
    throw new StartupError(
      `${wanted.of} has the ${what} ${names.join(", ")}; wanted are ${needed.join(", ")}.`,
      { setting: wanted.setting },
    );
  }
  return session;
}

/** @throws {StartupError} naming the inputs that nobody knows how to fill. */
export function requireKnownInputs(
  { inputs }: Pick<GraphSession, "inputs">,
  { isKnown, of }: { readonly isKnown: (name: string) => boolean; readonly of: string },
): void {
  const unknown = inputs.map(({ name }) => name).filter((name) => !isKnown(name));
  if (unknown.length === 0) return;
  throw new StartupError(`${of} wants inputs that are not known: ${unknown.join(", ")}.`);
}
