/**
 * Fits the weights of products to a GPU. Matrices that are larger than a buffer may be are divided by output columns,
 * and the results of the parts are concatenated. Matrices whose rows kernels cannot load as vectors are padded, for a
 * GPU and for the CPU.
 *
 * @module
 */
import { countStoredBytes, sliceColumns, sliceRows } from "../file/tensor.ts";
import { type GraphCut, rebuildSegment, type Segment } from "../graph_cut.ts";
import {
  attribute,
  getOpset,
  int64Tensor,
  listRead,
  makeNode,
  type ModelProto,
  type Node,
  readIntAttribute,
  readIntsAttribute,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { GraphIndex } from "../graph_index.ts";

/** The number of columns of each part but the last is a multiple of this, so that kernels can load rows as vectors. */
const ROW_MULTIPLE = 64;

/** The nodes that replace a node. */
interface Replacement {
  readonly nodes: readonly Node[];
  readonly constants: readonly Tensor[];
}

/** Divides products with constants of more than `maxBytes`, in all segments. */
export function divideLargeProducts(cut: GraphCut, maxBytes: number): GraphCut {
  const segments = cut.segments.map((segment) => divideSegment(segment, maxBytes));
  return { ...cut, segments };
}

function divideSegment(segment: Segment, maxBytes: number): Segment {
  const { graph } = segment.model;
  const constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  const replacements = new Map(graph.nodes.flatMap((node) => {
    const replacement = divide(node, constants, maxBytes);
    return replacement ? [[node, replacement]] : [];
  }));
  if (replacements.size === 0) return segment;
  const nodes = graph.nodes.flatMap((node) => replacements.get(node)?.nodes ?? node);
  const added = [...replacements.values()].flatMap(({ constants }) => constants);
  return rebuildSegment(segment, nodes, [...graph.initializers, ...added]);
}

/** Divides a product. @returns `undefined` if it is small enough, or cannot be divided. */
function divide(
  node: Node,
  constants: ReadonlyMap<string, Tensor>,
  maxBytes: number,
): Replacement | undefined {
  const numRows = countRows(node, constants);
  if (numRows === undefined) return undefined;
  const [first, ...names] = node.inputs;
  const tensors = names.map((name) => constants.get(name));
  const largest = Math.max(...tensors.map((tensor) => tensor ? countStoredBytes(tensor) : 0));
  if (largest <= maxBytes) return undefined;
  const rowBytes = largest / numRows;
  const rowsPerPart = Math.floor(maxBytes / rowBytes / ROW_MULTIPLE) * ROW_MULTIPLE;
  if (rowsPerPart === 0) return undefined;

  const added: Tensor[] = [];
  const nodes: Node[] = [];
  for (let from = 0; from < numRows; from += rowsPerPart) {
    const to = Math.min(from + rowsPerPart, numRows);
    const inputs = names.map((name, index) => {
      const tensor = tensors[index];
      if (tensor === undefined) return name;
      const part = isByColumn(node) && index === 0
        ? sliceColumns(tensor, { from, to })
        : sliceRows(tensor, { numRows, from, to });
      if (part !== undefined) added.push(part);
      return part?.name;
    });
    if (inputs.includes(undefined)) return undefined;
    const output = `${node.outputs[0]}/columns ${from} to ${to}`;
    const part = makeNode(node.opType, [first!, ...inputs as string[]], [output], {
      domain: node.domain,
      name: output,
      attributes: node.opType === "MatMulNBits" ? { N: to - from } : {},
    });
    const kept = node.attributes.filter(({ name }) =>
      !part.attributes.some((a) => a.name === name)
    );
    nodes.push({ ...part, attributes: [...kept, ...part.attributes] });
  }
  const parts = nodes.map(({ outputs }) => outputs[0]!);
  nodes.push(makeNode("Concat", parts, node.outputs, { attributes: { axis: -1 } }));
  return { nodes, constants: added };
}

/** The number of output columns of a product that can be divided; `undefined` for other nodes. */
function countRows(node: Node, constants: ReadonlyMap<string, Tensor>): number | undefined {
  const weights = constants.get(node.inputs[1] ?? "");
  if (weights === undefined) return undefined;
  if (node.opType === "MatMulNBits") {
    // `g_idx`, the fifth input, reorders the matrix, which is not supported here.
    return node.inputs[4] ? undefined : readIntAttribute(node, "N");
  }
  if (weights.shape.length !== 2 || !["Gemm", "MatMul"].includes(node.opType)) return undefined;
  return weights.shape[isByColumn(node) ? 1 : 0];
}

/** Whether a product's weights are `[inputs, outputs]`. */
function isByColumn(node: Node): boolean {
  return node.opType !== "MatMulNBits" && readIntAttribute(node, "transB") !== 1;
}

/** Elementwise operators that may follow a vocabulary projection. */
const POINTWISE = new Set(["Cast", "Mul", "Div", "Tanh", "Add"]);

/**
 * Makes a vocabulary projection that shares the embedding table read the table as stored: `MatMul(x, Transpose(table))`
 * becomes a `Gemm`. Otherwise ONNX Runtime would hold a transposed copy of the table.
 */
export function readTiedTable(cut: GraphCut): GraphCut {
  const last = cut.segments.at(-1)!;
  const { graph } = last.model;
  const [batch, , width] = cut.output.shape;
  if (cut.output.shape.length !== 3 || batch !== 1) return cut;
  const producers = new Map(
    graph.nodes.flatMap((node) => node.outputs.map((name) => [name, node])),
  );
  const constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  let node = producers.get(cut.output.name);
  while (node !== undefined && POINTWISE.has(node.opType)) {
    const name = node.inputs.find((input) => producers.has(input) && !isConstant(input));
    node = producers.get(name ?? "");
  }
  const transpose = node?.opType === "MatMul" ? producers.get(node.inputs[1]!) : undefined;
  const table = transpose?.opType === "Transpose" ? constants.get(transpose.inputs[0]!) : undefined;
  const permutation = transpose && readIntsAttribute(transpose, "perm");
  if (node === undefined || table?.shape.length !== 2 || table.shape[0] !== width) return cut;
  if (permutation !== undefined && permutation.join() !== "1,0") return cut;

  const [x, y] = [node.inputs[0]!, node.outputs[0]!];
  const [flat, product] = [`${x}/flat`, `${y}/flat`];
  const shapes = [
    int64Tensor(`${x}/flat_shape`, [2], [-1, table.shape[1]!]),
    int64Tensor(`${y}/shape`, [3], [1, -1, table.shape[0]!]),
  ];
  const replacement = [
    makeNode("Reshape", [x, shapes[0]!.name], [flat]),
    makeNode("Gemm", [flat, table.name], [product], { attributes: { transB: 1 } }),
    makeNode("Reshape", [product, shapes[1]!.name], [y]),
  ];
  const replaced = graph.nodes.flatMap((other) => other === node ? replacement : other);
  const read = new Set(replaced.flatMap(({ inputs }) => inputs));
  const nodes = replaced.filter((other) =>
    other !== transpose || other.outputs.some((name) => read.has(name))
  );
  const segment = rebuildSegment(last, nodes, [...graph.initializers, ...shapes]);
  return { ...cut, segments: [...cut.segments.slice(0, -1), segment] };

  /** Whether a tensor is computed from constants alone. */
  function isConstant(name: string): boolean {
    const producer = producers.get(name);
    if (producer === undefined) return constants.has(name);
    return producer.inputs.every((input) => input === "" || isConstant(input));
  }
}

const VECTOR = 4;
/** From this opset on, the sizes of a `Split` are an input. */
const OPSET = 13;
/** Plain matrices of fewer bytes are not padded. */
const MIN_BYTES = 32 * 1024;

/**
 * Gives products additional outputs, with weights of 0, until the number of outputs is a multiple of 4. The results of
 * the additional outputs are dropped.
 *
 * @param opType products with plain matrices `[k, n]`, or with quantised ones.
 */
export function padProducts(
  model: ModelProto,
  opType: "MatMul" | "MatMulNBits" = "MatMul",
): ModelProto {
  const { graph } = model;
  const index = new GraphIndex(graph);
  if (getOpset(model) < OPSET) return model;
  // By name: products may share their constants.
  const added = new Map<string, Tensor>();
  const nodes = graph.nodes.flatMap((node) => {
    const n = node.opType === opType ? countRows(node, index.constants) ?? 0 : 0;
    const width = Math.ceil(n / VECTOR) * VECTOR;
    const padded = n === width ? [] : padConstants(index, node, { n, width });
    if (padded.length === 0) return [node];
    const [y] = node.outputs as [string];
    const sizes = int64Tensor(`${y}/sizes`, [2], [n, width - n]);
    for (const each of [...padded, sizes]) if (each !== undefined) added.set(each.name, each);
    const [x, ...names] = node.inputs as [string, ...string[]];
    const inputs = [x, ...names.map((name, i) => padded[i]?.name ?? name)];
    const attributes = node.attributes.map((each) =>
      each.name === "N" ? attribute("N", width) : each
    );
    return [
      { ...node, attributes, name: `${y}/padded`, inputs, outputs: [`${y}/padded`] },
      makeNode("Split", [`${y}/padded`, sizes.name], [y, `${y}/padding`], {
        attributes: { axis: -1 },
      }),
    ];
  });
  if (added.size === 0) return model;
  const initializers = listRead(nodes, [...graph.initializers, ...added.values()]);
  return withGraph(model, { nodes, initializers });
}

/**
 * Pads a product's constants, which are its inputs from the second on. @returns an empty list if the product is not
 * padded.
 */
function padConstants(
  index: GraphIndex,
  node: Node,
  { n, width }: { readonly n: number; readonly width: number },
): readonly (Tensor | undefined)[] {
  const constants = node.inputs.slice(1).map((name) => index.constants.get(name));
  if (node.opType === "MatMulNBits") {
    return constants.map((tensor) => tensor && appendZeros(tensor, { n, width }));
  }
  const [weights] = constants as [Tensor];
  const isSmall = weights.shape[0]! % VECTOR !== 0 || countStoredBytes(weights) < MIN_BYTES;
  if (isSmall || index.onlyConsumer(weights.name) !== node) return [];
  return [sliceColumns(weights, { from: 0, to: width })];
}

/** Appends zeros to a constant of `n` outputs, so that it is for `width` outputs. */
function appendZeros(
  source: Tensor,
  { n, width }: { readonly n: number; readonly width: number },
): Tensor {
  const { name, shape } = source;
  const bytes = countStoredBytes(source);
  const zeros: Tensor = {
    ...{ ...source, name: `${name}/zeros` },
    data: { kind: "memory", bytes: new Uint8Array(bytes / n * (width - n)) },
  };
  const length = bytes / n * width;
  const parts = [source, zeros].map((each) => ({
    ...{ source: each, from: 0, length: countStoredBytes(each) },
  }));
  return {
    ...{ ...source, name: `${name}/${width} rows` },
    shape: [shape[0]! / n * width, ...shape.slice(1)],
    data: { kind: "rows", numRows: 1, parts, length },
  };
}
