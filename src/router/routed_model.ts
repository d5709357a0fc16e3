/**
 * A model that the router may start.
 *
 * @module
 */
import type { ModelKind } from "../base/config.ts";

/** A model and how its process is started. */
export interface RoutedModel {
  /** What `GET /models` reports. */
  readonly id: string;
  /** Other names that requests may use; `*` stands for all. */
  readonly aliases: readonly string[];
  readonly ownedBy: string;
  /** `undefined` until it is known: a model that is not downloaded says so only once it is loaded. */
  readonly kind: ModelKind | undefined;
  /** Memory that it takes, as the user says; measured if absent. */
  readonly memoryBytes?: number | undefined;
  /** The words of its `serve` command. */
  readonly args: readonly string[];
}
