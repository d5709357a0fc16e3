/**
 * What a model's process tells the router: lines of JSON on its standard output. The router holds the other end of its
 * standard input; the process stops when that is closed, which also happens if the router is killed.
 *
 * @module
 */
import type { ModelKind } from "../base/config.ts";

/** The environment variable that tells `serve` that a router started it. */
export const ROUTER_VARIABLE = "HEARTH_UNDER_ROUTER";

/** One line of JSON. */
export type ChildReport =
  /** The process listens on this port. */
  | { readonly type: "listening"; readonly port: number }
  | {
    readonly type: "ready";
    readonly kind: ModelKind;
    readonly contextLength?: number | undefined;
  }
  | { readonly type: "failed"; readonly reason: string };
