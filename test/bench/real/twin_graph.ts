/**
 * A graph builder with fast random weights.
 *
 * @module
 */
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { constant } from "../../fixtures/graphs/onnx_builder.ts";
import { Random } from "./random.ts";

export class TwinGraph extends GraphBuilder {
  readonly #random: Random;
  #count = 0;
  /** Names of shared weights, by the name of the run that shares them. */
  readonly #shared = new Map<string, string[]>();
  #repeated: Iterator<string> | undefined;
  #recorded: string[] | undefined;

  constructor(seed = 1) {
    super();
    this.#random = new Random(seed);
  }

  /** Runs `build`. Later runs of the same name reuse the weights of the first, in the same order. */
  withSameWeights<T>(name: string, build: () => T): T {
    const known = this.#shared.get(name);
    if (known === undefined) this.#shared.set(name, this.#recorded = []);
    else this.#repeated = known.values();
    try {
      return build();
    } finally {
      this.#recorded = this.#repeated = undefined;
    }
  }

  override weights(shape: readonly number[], scale = 0.5): string {
    if (this.#repeated !== undefined) return this.#repeated.next().value as string;
    const length = shape.reduce((product, size) => product * size, 1);
    const values = this.#random.floats(length, { low: -scale, high: scale });
    const name = this.constant(constant(`twin_weights_${this.#count++}`, shape, values));
    this.#recorded?.push(name);
    return name;
  }
}
