/**
 * A model that the router may start, and what its process tells the router: lines of JSON on its standard output. The
 * router holds the other end of the process's standard input; the process stops when that is closed, which also happens
 * if the router is killed.
 *
 * @module
 */
import type { ModelKind } from "../base/config.ts";

/** A model, and how its process is started. */
export interface RoutedModel {
  /** The id that `GET /models` reports. */
  readonly id: string;
  /** Other names that requests may use; `*` matches every name. */
  readonly aliases: readonly string[];
  readonly ownedBy: string;
  /** `undefined` while unknown: a model that is not downloaded yet reveals it only once it is loaded. */
  readonly kind: ModelKind | undefined;
  /** Memory that the model takes, according to the user; measured if absent. */
  readonly memoryBytes?: number | undefined;
  /** Arguments of the model's `serve` command. */
  readonly args: readonly string[];
}

/** The environment variable that tells `serve` that a router started it. */
export const ROUTER_VARIABLE = "HEARTH_UNDER_ROUTER";

/** One line of a process. */
export type ChildReport =
  /** The process listens on this port. */
  | { readonly type: "listening"; readonly port: number }
  | {
    readonly type: "ready";
    readonly kind: ModelKind;
    readonly contextLength?: number | undefined;
  }
  | { readonly type: "failed"; readonly reason: string };
