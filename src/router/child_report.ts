/**
 * What a model's process tells the router: lines of JSON on its standard output. The router holds the other end of its
 * standard input, and the process stops when that is closed, also because the router was killed.
 *
 * @module
 */
import type { ModelKind } from "../base/config.ts";

/** The environment variable that tells `serve` that a router started it. */
export const ROUTER_VARIABLE = "HEARTH_UNDER_ROUTER";

/** One line. */
export type ChildReport =
  /** It listens at this port. */
  | { readonly type: "listening"; readonly port: number }
  | {
    readonly type: "ready";
    readonly kind: ModelKind;
    readonly contextLength?: number | undefined;
  }
  | { readonly type: "failed"; readonly reason: string };
