/**
 * The WGSL of what follows the first product of an expert.
 *
 * @module
 */
import { ACTIVATIONS } from "../common/activation.ts";
import activationSource from "../common/activation.wgsl" with { type: "text" };
import type { ExpertActivation } from "./experts_params.ts";

/**
 * Declares `activated(gate, up)`, with `g = min(gate, limit)` and `u = clamp(up, -limit, limit)`:
 * `activate(g) * (u + beta)`, where SiLU is `g * sigmoid(alpha * g)`. Without a gate it is `activate(gate)`.
 */
export function activatedSource({ kind, alpha, gate }: ExpertActivation): string {
  const activate = (value: string) =>
    kind === "silu"
      ? `${value} / (1.0 + exp(-${literal(alpha)} * ${value}))`
      : `activate(${ACTIVATIONS.indexOf(kind)}u, ${value})`;
  if (gate === undefined) {
    return `${activationSource}
fn activated(gate: f32, up: f32) -> f32 {
  return ${activate("gate")};
}
`;
  }
  const { beta, limit } = gate;
  const isBounded = Number.isFinite(limit);
  return `${activationSource}
fn activated(gate: f32, up: f32) -> f32 {
  let g = ${isBounded ? `min(gate, ${literal(limit)})` : "gate"};
  let u = ${isBounded ? `clamp(up, ${literal(-limit)}, ${literal(limit)})` : "up"};
  return ${activate("g")} * (u + ${literal(beta)});
}
`;
}

/** A number as WGSL writes an f32. */
export function literal(value: number): string {
  return `f32(${value})`;
}
