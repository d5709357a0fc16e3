/**
 * Replaces the activation xIELU, which exporters of Apertus spell out with a `Where`, by operators that have kernels:
 *
 * `xielu(x) = αp * relu(x)² + αn * elu(x) + (β - αn) * x`
 *
 * @see {@link https://arxiv.org/abs/2411.13010 | Deriving Activation Functions Using Integration}
 * @module
 */
import type { Graph, Node, Tensor } from "../file/proto.ts";
import { makeNode } from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/**
 * Numbers at which the function is evaluated. The results of the first three give the factors, which the results of all
 * must fit.
 */
const SAMPLES = [1, 2, -1, -30, -8, -3, -0.5, -0.1, -0.01, 0, 0.01, 0.1, 0.5, 3, 8, 30];

/** Largest error at a sample, in relation to its terms: graphs limit numbers close to 0, and round factors. */
const MAX_ERROR = 1e-5;

/** The factors of `relu(x)²`, `elu(x)` and `x`. */
type Factors = readonly [square: number, elu: number, linear: number];

/** Replaces all xIELUs of a graph. */
export function spellXielu(probes: Probes): Graph {
  const { graph } = probes.index;
  const constants: Tensor[] = [];
  const nodes = graph.nodes.flatMap((node) => {
    const input = findInput(node, probes);
    if (input === undefined) return [node];
    const factors = findFactors(probes, input, node.outputs[0]!);
    if (factors === undefined) return [node];
    const spelled = spell(node.outputs[0]!, { input, factors, probes });
    constants.push(...spelled.constants);
    return spelled.nodes;
  });
  return constants.length === 0
    ? graph
    : { ...graph, nodes, initializers: [...graph.initializers, ...constants] };
}

/** Finds the tensor whose sign decides between two branches. */
function findInput(node: Node, probes: Probes): string | undefined {
  if (node.opType !== "Where") return undefined;
  const comparison = probes.index.producers.get(node.inputs[0]!);
  if (comparison?.opType !== "Greater") return undefined;
  const [input, limit] = comparison.inputs as [string, string];
  const run = probes.at(SHORT_LENGTHS[0]);
  const value = run.value(input);
  const isFloat = value?.dtype === "float32" || value?.dtype === "float16";
  return isFloat && value.data === undefined && run.value(limit)?.data?.join() === "0"
    ? input
    : undefined;
}

/** Finds the factors of a function; `undefined` if it is not an xIELU. */
function findFactors(probes: Probes, input: string, output: string): Factors | undefined {
  const run = probes.at(SHORT_LENGTHS[0]);
  const { dtype } = run.value(input)!;
  const samples = { dtype, shape: [SAMPLES.length], data: Float64Array.from(SAMPLES) };
  const results = run.valueWith(output, new Map([[input, samples]]))?.data;
  if (results?.length !== SAMPLES.length) return undefined;
  const [one, two, minusOne] = results as unknown as [number, number, number];
  const square = two / 2 - one;
  const beta = one - square;
  const elu = (minusOne + beta) * Math.E;
  const factors = [square, elu, beta - elu] as const;
  const isSame = SAMPLES.every((x, i) => {
    const terms = [Math.max(x, 0) ** 2, x > 0 ? x : Math.expm1(x), x]
      .map((term, j) => term * factors[j]!);
    const sum = terms.reduce((total, term) => total + term);
    const size = Math.max(...terms.map(Math.abs), Math.abs(elu));
    return Math.abs(results[i]! - sum) <= MAX_ERROR * size;
  });
  return isSame ? factors : undefined;
}

/** Makes the nodes that compute the sum of the three terms. */
function spell(
  output: string,
  { input, factors, probes }: {
    readonly input: string;
    readonly factors: Factors;
    readonly probes: Probes;
  },
): { readonly nodes: readonly Node[]; readonly constants: readonly Tensor[] } {
  const { dtype } = probes.at(SHORT_LENGTHS[0]).value(input)!;
  const names = ["square", "elu", "linear"].map((name) => `${output}/${name}`);
  const constants = names.map((name, i): Tensor => {
    const data = (dtype === "float16" ? Float16Array : Float32Array).of(factors[i]!);
    return {
      ...{ name: `${name}_factor`, dtype, shape: [], rest: [] },
      data: { kind: "memory", bytes: new Uint8Array(data.buffer) },
    };
  });
  const [relu, squared, elu, sum] = ["relu", "squared", "elu_of_x", "sum"]
    .map((name) => `${output}/${name}`) as [string, string, string, string];
  const terms = [squared, elu, input].map((term, i) =>
    makeNode("Mul", [term, constants[i]!.name], [names[i]!])
  );
  const nodes = [
    makeNode("Relu", [input], [relu]),
    makeNode("Mul", [relu, relu], [squared]),
    makeNode("Elu", [input], [elu]),
    ...terms,
    makeNode("Add", [names[0]!, names[2]!], [sum]),
    makeNode("Add", [sum, names[1]!], [output]),
  ];
  return { nodes, constants };
}
