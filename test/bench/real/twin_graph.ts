/**
 * A graph builder whose random weights come quickly.
 *
 * @module
 */
import { GraphBuilder } from "../../fixtures/graph_builder.ts";
import { constant } from "../../fixtures/onnx_builder.ts";
import { Random } from "./random.ts";

export class TwinGraph extends GraphBuilder {
  readonly #random: Random;
  #count = 0;

  constructor(seed = 1) {
    super();
    this.#random = new Random(seed);
  }

  override weights(shape: readonly number[], scale = 0.5): string {
    const length = shape.reduce((product, size) => product * size, 1);
    const values = this.#random.floats(length, { low: -scale, high: scale });
    return this.constant(constant(`twin_weights_${this.#count++}`, shape, values));
  }
}
