/**
 * `Scan`: a nested graph that runs once per token and passes its state on.
 *
 * @module
 */
import { GraphIndex } from "../graph_index.ts";
import { ATTRIBUTE, intAttribute, intsAttribute, type Node } from "../file/proto.ts";
import { decodeNode, decodeTensorMessage, decodeValueInfo } from "../file/proto_decode.ts";
import { readFields } from "../file/wire.ts";

/** Field numbers of GraphProto. */
const GRAPH = { node: 1, initializer: 5, input: 11, output: 12 } as const;

/** A `Scan` over the tokens, and the graph that it runs. */
export interface Scan {
  readonly body: GraphIndex;
  /** Names inside the body, in order, the states first. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly numStates: number;
  /** The axis of the tokens in each input and output that is divided by them. */
  readonly inputAxes: readonly number[];
  readonly outputAxes: readonly number[];
}

/** Reads a forward `Scan`; `undefined` for any other node. */
export function readScan(node: Node): Scan | undefined {
  const numScanned = intAttribute(node, "num_scan_inputs");
  if (node.opType !== "Scan" || numScanned === undefined) return undefined;
  const directions = ["scan_input_directions", "scan_output_directions"]
    .flatMap((name) => intsAttribute(node, name) ?? []);
  const message = node.attributes.find(({ name }) => name === "body")?.message;
  if (message === undefined || directions.some((direction) => direction !== 0)) return undefined;
  const graph = [...readFields(message)].find(({ number }) => number === ATTRIBUTE.graph);
  const fields = [...readFields(graph?.payload ?? new Uint8Array())];
  const payloads = (wanted: number) =>
    fields.filter(({ number }) => number === wanted).map(({ payload }) => payload);
  const [inputs, outputs] = [GRAPH.input, GRAPH.output].map((number) =>
    payloads(number).map((payload) => decodeValueInfo(payload).name)
  ) as [string[], string[]];
  const body = new GraphIndex({
    name: "body",
    nodes: payloads(GRAPH.node).map(decodeNode),
    initializers: payloads(GRAPH.initializer).map(decodeTensorMessage),
    inputs: [],
    outputs: [],
    valueInfos: [],
    rest: [],
  });
  const numStates = inputs.length - numScanned;
  const axes = (name: string, count: number) =>
    intsAttribute(node, name) ?? new Array<number>(count).fill(0);
  return {
    ...{ body, inputs, outputs, numStates },
    inputAxes: axes("scan_input_axes", numScanned),
    outputAxes: axes("scan_output_axes", outputs.length - numStates),
  };
}
