/**
 * "Did you mean": which known names a mistyped one is close to.
 *
 * @module
 */
import { distance } from "fastest-levenshtein";

/**
 * Finds known names that are similar to `name`, the most similar first: names that contain it, and names whose edit
 * distance from it is at most two, or at most a third of its length if that is more.
 *
 * ```ts
 * import { findNearNames } from "./near_names.ts";
 * import assert from "node:assert/strict";
 *
 * assert.deepEqual(findNearNames("prot", ["port", "model"]), ["port"]);
 * ```
 */
export function findNearNames(name: string, known: readonly string[], limit = 3): string[] {
  const wanted = name.toLowerCase();
  const farthest = Math.max(2, Math.floor(wanted.length / 3));
  return known
    .map((candidate) => ({ candidate, distance: measure(wanted, candidate.toLowerCase()) }))
    .filter((near) => near.distance <= farthest)
    .sort((a, b) => a.distance - b.distance)
    .slice(0, limit)
    .map((near) => near.candidate);
}

function measure(wanted: string, candidate: string): number {
  // With three letters or fewer, containing them is likely a coincidence.
  const contains = wanted.length > 3 && candidate.includes(wanted);
  return contains ? 1 : distance(wanted, candidate);
}
