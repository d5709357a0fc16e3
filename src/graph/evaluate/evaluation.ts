/**
 * Partial evaluation of a graph: computes shapes, and the elements of small tensors that depend only on constants and
 * known inputs. The cut uses it to find the masks, lengths and positions that a graph computes, no matter which nodes
 * its exporter chose for them.
 *
 * @module
 */
import { GraphIndex, readNested } from "../graph_index.ts";
import { liftConstants } from "../file/lift_constants.ts";
import { type Node, readIntAttribute, readIntsAttribute } from "../file/proto.ts";
import { ELEMENTWISE_RULES } from "./elementwise.ts";
import { INDEXING_RULES } from "./indexing.ts";
import { LAYOUT_RULES } from "./layout.ts";
import { PRODUCT_RULES } from "./products.ts";
import {
  type Call,
  need,
  normalizeAxis,
  type Rules,
  toValue,
  UnknownValue,
  type Value,
} from "./value.ts";

/** A `Scan` over the tokens, and the graph that it runs for each. */
export interface Scan {
  readonly body: GraphIndex;
  /** Names of the body's inputs and outputs, in order; those of states come first. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly numStates: number;
  /** The tokens' axis of each scanned input and output. */
  readonly inputAxes: readonly number[];
  readonly outputAxes: readonly number[];
}

/** Reads a forward `Scan`; `undefined` for any other node. */
export function readScan(node: Node): Scan | undefined {
  const numScanned = readIntAttribute(node, "num_scan_inputs");
  if (node.opType !== "Scan" || numScanned === undefined) return undefined;
  const directions = ["scan_input_directions", "scan_output_directions"]
    .flatMap((name) => readIntsAttribute(node, name) ?? []);
  const message = node.attributes.find(({ name }) => name === "body")?.message;
  if (message === undefined || directions.some((direction) => direction !== 0)) return undefined;
  const { nodes, initializers, inputs, outputs } = readNested(message);
  const body = new GraphIndex(liftConstants({
    ...{ name: "body", nodes, initializers },
    ...{ inputs: [], outputs: [], valueInfos: [], rest: [] },
  }));
  const numStates = inputs.length - numScanned;
  const axes = (name: string, count: number) =>
    readIntsAttribute(node, name) ?? new Array<number>(count).fill(0);
  return {
    ...{ body, inputs, outputs, numStates },
    inputAxes: axes("scan_input_axes", numScanned),
    outputAxes: axes("scan_output_axes", outputs.length - numStates),
  };
}

const RULES: Rules = {
  ...ELEMENTWISE_RULES,
  ...INDEXING_RULES,
  ...LAYOUT_RULES,
  ...PRODUCT_RULES,
  Scan: scan,
};

/** Computes the shapes of a `Scan`'s outputs, by evaluating its body for one token. */
function scan(call: Call): readonly (Value | undefined)[] {
  const found = readScan(call.node);
  if (found === undefined) throw new UnknownValue("body");
  const { body, inputs, outputs, numStates, inputAxes, outputAxes } = found;
  let numTokens = 0;
  const feeds = new Map(inputs.map((name, i): [string, Value] => {
    const { dtype, shape } = need(call, i);
    const own = inputAxes[i - numStates];
    if (own === undefined) return [name, { dtype, shape }];
    const axis = normalizeAxis(own, shape.length);
    numTokens = shape[axis]!;
    return [name, { dtype, shape: shape.toSpliced(axis, 1) }];
  }));
  const run = new Evaluation(body, feeds);
  return outputs.map((name, i) => {
    const value = run.value(name);
    const own = outputAxes[i - numStates];
    if (value === undefined || own === undefined) return value && { ...value, data: undefined };
    const { dtype, shape } = value;
    return { dtype, shape: shape.toSpliced(normalizeAxis(own, shape.length + 1), 0, numTokens) };
  });
}

/** The values of one partial evaluation. */
export class Evaluation {
  readonly #index: GraphIndex;
  readonly #values: Map<string, Value | undefined>;

  /** @param feeds known tensors. They take precedence over what nodes would compute. */
  constructor(index: GraphIndex, feeds: ReadonlyMap<string, Value>) {
    this.#index = index;
    this.#values = new Map(feeds);
    for (const node of index.graph.nodes) this.#run(node, this.#values);
  }

  /** A tensor's type and shape, and its elements if they are known; `undefined` if the shape is unknown too. */
  value(name: string): Value | undefined {
    return this.#get(name, this.#values);
  }

  /** The value of `target` if the tensors in `feeds` had these values; `undefined` if its shape is unknown. */
  valueWith(target: string, feeds: ReadonlyMap<string, Value>): Value | undefined {
    const values = new Map<string, Value | undefined>(feeds);
    /** Whether each tensor visited so far depends on `feeds`. */
    const affected = new Map<string, boolean>([...feeds.keys()].map((name) => [name, true]));
    const stack: { node: Node; nextInput: number }[] = [];
    const enter = (name: string) => {
      if (affected.has(name)) return;
      const node = this.#index.producers.get(name);
      for (const output of node?.outputs ?? [name]) {
        if (!affected.has(output)) affected.set(output, false);
      }
      if (node) stack.push({ node, nextInput: 0 });
    };
    enter(target);
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const { node } = top;
      const input = node.inputs[top.nextInput++];
      if (input !== undefined) {
        enter(input);
        continue;
      }
      stack.pop();
      if (!node.inputs.some((name) => affected.get(name))) continue;
      for (const output of node.outputs) affected.set(output, true);
      this.#run(node, values);
    }
    return this.#get(target, values);
  }

  #get(name: string, values: Map<string, Value | undefined>): Value | undefined {
    if (name === "") return undefined;
    if (values.has(name)) return values.get(name);
    if (this.#values.has(name)) return this.#values.get(name);
    const constant = this.#index.constants.get(name);
    if (constant === undefined) return undefined;
    const value = toValue(constant);
    this.#values.set(name, value);
    return value;
  }

  #run(node: Node, values: Map<string, Value | undefined>): void {
    const inputs = node.inputs.map((name) => this.#get(name, values));
    let results: readonly (Value | undefined)[] = [];
    try {
      results = RULES[node.opType]?.({ node, inputs }) ?? [];
    } catch (error) {
      if (!(error instanceof UnknownValue)) throw error;
    }
    node.outputs.forEach((name, i) => {
      if (name !== "" && !values.has(name)) values.set(name, results[i]);
    });
  }
}
