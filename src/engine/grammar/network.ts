/**
 * A grammar as networks of states, one per rule, that call each other.
 *
 * @module
 */
import type { Expressions } from "./expressions.ts";

export const ANY_TOKEN = -1;

/** A transition from one state to another. */
export type Edge =
  | { readonly kind: "terminal"; readonly value: number; readonly next: number }
  /** `value` is a token id, or `ANY_TOKEN`. */
  | { readonly kind: "token"; readonly value: number; readonly next: number }
  | { readonly kind: "rule"; readonly value: number; readonly next: number };

export interface Network {
  readonly expressions: Expressions;
  readonly edges: readonly (readonly Edge[])[];
  /** States reached without consuming text. */
  readonly silent: readonly (readonly number[])[];
  /** Whether a rule ends with the state. */
  readonly isFinal: readonly boolean[];
  /** Whether nothing but the end of its rule follows a state. */
  readonly isLast: readonly boolean[];
  /** The first state of each rule. */
  readonly starts: readonly number[];
  /** Whether a rule matches the empty text. */
  readonly isNullable: readonly boolean[];
  readonly root: number;
}

/** The states of all rules, before pruning. */
interface RawNetwork {
  readonly edges: readonly (readonly Edge[])[];
  readonly silent: readonly (readonly number[])[];
  readonly isFinal: readonly boolean[];
  /** The rule that each state belongs to. */
  readonly getRule: readonly number[];
}

/** Removes dead ends, so that every valid prefix can be completed. @returns `undefined` if no text is valid. */
export function prune(
  raw: RawNetwork,
  { expressions, starts, root }: Pick<Network, "expressions" | "starts" | "root">,
): Network | undefined {
  const { silent, isFinal, getRule } = raw;
  const isAlive = (edge: Edge) => edge.kind !== "terminal" || !expressions.isEmpty(edge.value);
  const edges = raw.edges.map((each) => each.filter(isAlive));

  const callers = starts.map((): [number, number][] => []);
  const before = edges.map((): number[] => []);
  edges.forEach((each, state) => {
    for (const { kind, value, next } of each) {
      if (kind === "rule") callers[value]!.push([state, next]);
      else before[next]!.push(state);
    }
  });
  silent.forEach((each, state) => each.forEach((next) => before[next]!.push(state)));
  const isOfUse = spread(isFinal, { starts, getRule, before, callers });
  if (!isOfUse[starts[root]!]) return undefined;

  const silently = edges.map((): number[] => []);
  const silentCallers = starts.map((): [number, number][] => []);
  edges.forEach((each, state) => {
    for (const { kind, value, next } of each) {
      if (kind === "rule") silentCallers[value]!.push([state, next]);
      else if (kind === "terminal" && expressions.isNullable(value)) silently[next]!.push(state);
    }
  });
  silent.forEach((each, state) => each.forEach((next) => silently[next]!.push(state)));
  const endsSilently = spread(isFinal, {
    starts,
    getRule,
    before: silently,
    callers: silentCallers,
  });

  const kept = edges.map((each) =>
    each.filter(({ kind, value, next }) =>
      isOfUse[next] && (kind !== "rule" || isOfUse[starts[value]!])
    )
  );
  const keptSilent = silent.map((each) => each.filter((next) => isOfUse[next]));
  return {
    expressions,
    starts,
    root,
    isFinal,
    isLast: findLast(kept, keptSilent, isFinal),
    edges: kept,
    silent: keptSilent,
    isNullable: starts.map((start) => endsSilently[start]!),
  };
}

/**
 * Finds the states after which only the end of the rule can follow: no edge leaves them, nor any state reached from
 * them without text, and one of these states is final.
 */
function findLast(
  edges: Network["edges"],
  silent: Network["silent"],
  isFinal: Network["isFinal"],
): boolean[] {
  const leaves = edges.map((each) => each.length > 0);
  // States reached without text come after those that lead to them, except in loops, which have edges.
  for (let changed = true; changed;) {
    changed = false;
    for (let state = edges.length - 1; state >= 0; state--) {
      if (leaves[state] || !silent[state]!.some((next) => leaves[next])) continue;
      leaves[state] = changed = true;
    }
  }
  return leaves.map((does, state) => !does && (isFinal[state]! || silent[state]!.length > 0));
}

/** Finds the states from which a final state can be reached, through rules that can be completed. */
function spread(isFinal: readonly boolean[], parts: {
  readonly starts: readonly number[];
  readonly getRule: readonly number[];
  /** For each state, the states that lead to it. */
  readonly before: readonly (readonly number[])[];
  /** For each rule, the states before and after its calls. */
  readonly callers: readonly (readonly [number, number][])[];
}): boolean[] {
  const { starts, getRule, before, callers } = parts;
  const reaches = [...isFinal];
  const queue = reaches.flatMap((is, state) => is ? [state] : []);
  const add = (state: number) => {
    if (reaches[state]) return;
    reaches[state] = true;
    queue.push(state);
  };
  const waiting = before.map((): number[] => []);
  callers.forEach((each, rule) =>
    each.forEach(([state, next]) => waiting[next]!.push(state, rule))
  );
  for (const state of queue) {
    before[state]!.forEach(add);
    for (let i = 0; i < waiting[state]!.length; i += 2) {
      const [from, rule] = [waiting[state]![i]!, waiting[state]![i + 1]!];
      if (reaches[starts[rule]!]) add(from);
    }
    const rule = getRule[state]!;
    if (starts[rule] !== state) continue;
    for (const [from, next] of callers[rule]!) if (reaches[next]) add(from);
  }
  return reaches;
}
