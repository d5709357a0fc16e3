/**
 * Tables of the tensors that a cut graph computes from token positions only, such as cosines and sines of rotary
 * embeddings.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import { Evaluation } from "../graph/evaluate/evaluation.ts";
import type { Value } from "../graph/evaluate/value.ts";
import type { GraphCut } from "../graph/graph_cut.ts";
import { GraphIndex } from "../graph/graph_index.ts";
import { countElementBytes, countElements, type StoredTensor } from "../graph/file/tensor.ts";
import { type Graph, type Node, readIntAttribute, type Tensor } from "../graph/file/proto.ts";

/** Number of positions that are evaluated to recognize a table. */
const PROBED = 7;
/** Number of positions that are computed at a time. */
const AT_ONCE = 2048;

export class PositionTables {
  /** Tensors that depend on positions only. Each maps to the first tensor that is computed in the same way. */
  readonly #names: ReadonlyMap<string, string>;
  readonly #index: GraphIndex;
  readonly #positions: string | undefined;
  /** Positions per token: several if a rotary embedding has sections. */
  readonly #numSections: number;
  readonly #numPositions: number;
  /** Constants of the graph that are in its file, and of which only rows are read. */
  readonly #stored: readonly Tensor[];
  #probe: Evaluation | undefined;

  /** @param numPositions number of rows of each table. */
  constructor(cut: Pick<GraphCut, "segments" | "positions">, numPositions: number) {
    const [tokens, ...rest] = cut.positions?.shape.toReversed() ?? [];
    const isKnown = tokens === "tokens" && rest.every((size) => typeof size === "number");
    this.#positions = isKnown ? cut.positions!.name : undefined;
    this.#numSections = isKnown ? countElements(rest) : 1;
    this.#numPositions = numPositions;
    const { names, graph } = collectPositional(cut, this.#positions);
    this.#names = names;
    this.#index = new GraphIndex(graph);
    this.#stored = graph.initializers.filter((tensor) => isStoredTable(this.#index, tensor));
  }

  /** The name of the tokens' positions; `undefined` if the cut has none. */
  get positions(): string | undefined {
    return this.#positions;
  }

  /** Whether a token has several positions. */
  get hasSections(): boolean {
    return this.#numSections > 1;
  }

  /** Whether a tensor depends on positions only. */
  has(name: string): boolean {
    return this.#names.has(name);
  }

  /**
   * Returns the table of a tensor that depends on positions only. If tokens have several positions, the rows are for
   * tokens whose positions are all equal.
   *
   * @param options.isInterleaved whether repeated elements are neighbours, rather than the two halves of a row.
   * @returns f32 `[numPositions, width]`, computed when it is read; `undefined` if the tensor's rows do not consist of
   * `width` elements, or of these twice. Tensors that are computed in the same way share one table.
   */
  getTable(
    name: string,
    width: number,
    { isInterleaved = false }: { readonly isInterleaved?: boolean } = {},
  ): StoredTensor | undefined {
    const first = this.#names.get(name);
    if (first === undefined) return undefined;
    this.#probe ??= this.#evaluate(0, PROBED, this.#stored.map(makeStandIn));
    const row = readRow(this.#probe.value(first), width, isInterleaved);
    if (row === undefined) return undefined;
    return {
      name: `${first}/table`,
      dtype: "float32",
      shape: [this.#numPositions, width],
      data: {
        kind: "computed",
        sources: this.#stored,
        length: this.#numPositions * width * Float32Array.BYTES_PER_ELEMENT,
        compute: (sources, into) => this.#fill(first, { sources, into, width, row }),
      },
    };
  }

  /**
   * For each element of the tables' rows, the index of the position on which it depends; `undefined` if an element
   * depends on several positions, or on different ones in two tables.
   */
  getSections(
    names: readonly string[],
    width: number,
    { isInterleaved = false }: { readonly isInterleaved?: boolean } = {},
  ): readonly number[] | undefined {
    const stored = this.#stored.map(makeStandIn);
    const readRows = (section?: number) => {
      const run = this.#evaluate(0, PROBED, stored, section);
      return names.map((name) => {
        const value = run.value(this.#names.get(name) ?? name);
        const row = readRow(value, width, isInterleaved);
        return row && { ...row, data: value!.data! };
      });
    };
    const all = readRows();
    const bySection = Array.from({ length: this.#numSections }, (_, section) => readRows(section));
    const isBy = (element: number, section: number) =>
      all.every((rows, table) => {
        const own = bySection[section]![table];
        if (rows === undefined || own === undefined) return false;
        return rows.data.subarray(0, PROBED * rows.width).every((angle, at) =>
          at % rows.width !== element * rows.step || own.data[at] === angle
        );
      });
    const sections = Array.from(
      { length: width },
      (_, element) => bySection.findIndex((_, section) => isBy(element, section)),
    );
    return sections.includes(-1) ? undefined : sections;
  }

  #fill(
    name: string,
    { sources, into, width, row }: {
      readonly sources: readonly Uint8Array[];
      readonly into: Uint8Array;
      readonly width: number;
      readonly row: Row;
    },
  ): void {
    const stored = this.#stored.map((tensor, i) =>
      decodeFirstRows(tensor, sources[i]!, this.#numPositions)
    );
    for (let from = 0; from < this.#numPositions; from += AT_ONCE) {
      const count = Math.min(AT_ONCE, this.#numPositions - from);
      const data = this.#evaluate(from, count, stored).value(name)!.data!;
      if (!hasWidth(data, width, row)) {
        throw new StartupError(`The halves of the rotary table "${name}" differ.`);
      }
      const rows = Float32Array.from(
        { length: count * width },
        (_, i) => data[Math.floor(i / width) * row.width + i % width * row.step]!,
      );
      into.set(new Uint8Array(rows.buffer), from * width * Float32Array.BYTES_PER_ELEMENT);
    }
  }

  /**
   * Evaluates the tables for a range of positions.
   *
   * @param stored contents of the tables in the file.
   * @param section the only section that gets these positions, while others get 0; all sections if absent.
   */
  #evaluate(from: number, count: number, stored: readonly Value[], section?: number): Evaluation {
    const numSections = this.#numSections;
    const data = Float64Array.from(
      { length: numSections * count },
      (_, i) => section === undefined || section === Math.floor(i / count) ? from + i % count : 0,
    );
    const shape = numSections === 1 ? [1, count] : [numSections, 1, count];
    const positions: Value = { dtype: "int64", shape, data };
    const feeds = new Map([[this.#positions!, positions]]);
    this.#stored.forEach(({ name }, i) => feeds.set(name, stored[i]!));
    return new Evaluation(this.#index, feeds);
  }
}

/** Whether a constant is a table of floats in the graph's file, and only its rows are read. */
function isStoredTable(index: GraphIndex, { name, dtype, shape, data }: Tensor): boolean {
  const isFloat = dtype === "float32" || dtype === "float16";
  return isFloat && shape.length === 2 && data.kind !== "memory" &&
    index.graph.nodes.every((node) =>
      !node.inputs.includes(name) ||
      (node.opType === "Gather" && node.inputs[0] === name && !readIntAttribute(node, "axis"))
    );
}

/**
 * A substitute for the first rows of a table that has not been read yet. Its elements differ, but the halves of a row
 * are equal, as in tables for whole heads. When the table is read, this is checked.
 */
function makeStandIn({ dtype, shape }: Tensor): Value {
  const width = shape[1]!;
  const half = width % 2 === 0 ? width / 2 : width;
  const data = Float64Array.from(
    { length: PROBED * width },
    (_, i) => 1 / (Math.floor(i / width) * half + i % half + 2),
  );
  return { dtype, shape: [PROBED, width], data };
}

/** Decodes the first rows of a table. */
function decodeFirstRows({ dtype, shape }: Tensor, bytes: Uint8Array, count: number): Value {
  const own = [Math.min(count, shape[0]!), shape[1]!];
  const length = countElementBytes(dtype, countElements(own));
  const { buffer } = bytes.slice(0, length);
  const floats = dtype === "float32" ? new Float32Array(buffer) : new Float16Array(buffer);
  return { dtype, shape: own, data: Float64Array.from(floats) };
}

/** The layout of one position's elements in a tensor. */
interface Row {
  readonly width: number;
  /** Distance between wanted elements. */
  readonly step: number;
}

/** Checks that the rows of the evaluated positions have `width` elements, or each of these twice. */
function readRow(value: Value | undefined, width: number, isInterleaved: boolean): Row | undefined {
  const { shape = [], data } = value ?? {};
  const [count, ...sizes] = shape.filter((size) => size !== 1);
  // A row may have several axes.
  const row = countElements(sizes);
  if (data === undefined || count !== PROBED) return undefined;
  if (row === width) return { width: row, step: 1 };
  if (row !== 2 * width) return undefined;
  const twice = { width: row, step: isInterleaved ? 2 : 1 };
  return hasWidth(data, width, twice) ? twice : undefined;
}

/** Whether each row consists of `width` elements, or of these twice. */
function hasWidth(data: Float64Array, width: number, row: Row): boolean {
  return row.width === width ||
    data.every((x, i) =>
      row.step === 2 ? x === data[i - i % 2] : i % row.width < width || x === data[i - width]
    );
}

/** Collects the nodes that only read positions, constants, and outputs of such nodes. */
function collectPositional(
  { segments }: Pick<GraphCut, "segments">,
  positions: string | undefined,
) {
  const names = new Map(positions === undefined ? [] : [[positions, positions]]);
  const firsts = new Map<string, Node>();
  const nodes: Node[] = [];
  const constants = new Map<string, Tensor>();
  for (const { model: { graph } } of segments) {
    /** Nodes that only read constants, by output. */
    const fixed = new Map<string, Node>();
    const own = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
    const addFixed = (inputs: readonly string[]) => {
      for (const name of inputs) {
        if (own.has(name)) constants.set(name, own.get(name)!);
        const node = fixed.get(name);
        if (node === undefined || nodes.includes(node)) continue;
        addFixed(node.inputs);
        nodes.push(node);
      }
    };
    for (const node of graph.nodes) {
      const inputs = node.inputs.filter((name) => name !== "");
      const isKnown = (name: string) => names.has(name) || own.has(name) || fixed.has(name);
      if (inputs.length === 0 || !inputs.every(isKnown)) continue;
      if (!inputs.some((name) => names.has(name))) {
        for (const name of node.outputs) fixed.set(name, node);
        continue;
      }
      const read = node.inputs.map((name) => names.get(name) ?? name);
      const { opType, domain, attributes } = node;
      const key = JSON.stringify([
        opType,
        domain,
        read,
        attributes.map(({ message }) => [...message]),
      ]);
      const first = firsts.get(key);
      node.outputs.forEach((name, i) => names.set(name, first?.outputs[i] ?? name));
      if (first !== undefined) continue;
      firsts.set(key, node);
      addFixed(inputs);
      nodes.push(asElementwise({ ...node, inputs: read }, own));
    }
  }
  const graph: Graph = {
    ...{ name: "positions", nodes, initializers: [...constants.values()] },
    ...{ inputs: [], outputs: [], valueInfos: [], rest: [] },
  };
  return { names, graph };
}

/** Converts a matrix product over a single element to an elementwise product, which is evaluated in less time. */
function asElementwise(node: Node, constants: ReadonlyMap<string, Tensor>): Node {
  if (node.opType !== "MatMul") return node;
  const [left, right] = node.inputs.map((name) => constants.get(name)?.shape);
  const isOuter = left ? left.at(-1) === 1 : right?.at(-2) === 1;
  return isOuter ? { ...node, opType: "Mul" } : node;
}
