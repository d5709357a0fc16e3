/**
 * A model that the router may start.
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
