/**
 * Compiles a segment of a cut decoder to dispatches of kernels. It only reads nodes, and constants in memory.
 *
 * The compiler works backwards from the segment's outputs, and puts as much of the graph into one dispatch as a kernel
 * can compute.
 *
 * @module
 */
import { toDtypeCode } from "../graph/file/tensor.ts";
import { type Elem, toElem } from "../gpu/kernel.ts";
import type { AttentionNode, Segment, TensorPort } from "../graph/graph_cut.ts";
import { describeNode, eitherInput, GraphIndex, readVector } from "../graph/graph_index.ts";
import { type Node, readIntAttribute, readIntsAttribute } from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";
import { findActivation } from "./activations.ts";
import {
  findDtype,
  findOriginal,
  findPortRows,
  findSum,
  isReshape,
  makeDense,
  nameSum,
  readPart,
  type RowSearch,
  simplifyToRows,
  takeRows,
} from "./row_nodes.ts";
import {
  type AttentionOperand,
  computeOperand,
  findFactors,
  findOperandLayout,
  SWAPPED_HEADS,
} from "./attention_operand.ts";
import { compileClip, compileMultiply } from "./elementwise.ts";
import { findNorm, type FoundNorm, readSkipBias } from "./norms.ts";
import type { PositionTables } from "./position_tables.ts";
import { findElem, findPlanElem, type ProductPlan, ProductPlanner } from "./product_plan.ts";
import type { Compiled } from "./program.ts";
import { ProgramBuilder, type Rows } from "./program_builder.ts";
import { findRotation } from "./rotary.ts";

/** Options for compiling a segment. */
interface CompileOptions {
  /** The attention nodes after the segment that read operands as the dispatches leave them. */
  readonly nodes: readonly AttentionNode[];
  /** Tensors of the cut that depend on positions only. */
  readonly tables: PositionTables;
  /** Outputs that anything other than these attention nodes reads. */
  readonly kept: ReadonlySet<string>;
  /** Whether every token of the step is a wanted row, so that the last segment need not select them. */
  readonly allRows: boolean;
  /** Whether products have many rows. They then compute neither layer norms nor sums. */
  readonly hasTiles: boolean;
  /**
   * Whether a product of few rows may also compute and write its input, if that is the sum of a residual and a norm.
   */
  readonly writesSums: boolean;
  /** Operands that attention nodes read normalised and rotated, by name; none if absent. */
  readonly operands?: ReadonlyMap<string, AttentionOperand> | undefined;
}

/** Compiles a segment, or says in one sentence why it cannot be compiled. */
export function compileSegment(segment: Segment, options: CompileOptions): Compiled {
  try {
    return { program: new Compiler(segment, options).compile() };
  } catch (error) {
    // Kernels throw a RangeError for sizes that they do not support.
    if (!(error instanceof Refusal) && !(error instanceof RangeError)) throw error;
    return { refused: error.message };
  }
}

class Compiler {
  readonly #segment: Segment;
  readonly #options: CompileOptions;
  readonly #index: GraphIndex;
  readonly #planner: ProductPlanner;
  readonly #program: ProgramBuilder;
  /** Operands, by the names of the tensors of which they are reshapes. */
  readonly #operands: ReadonlyMap<string, AttentionOperand>;
  readonly #known = new Map<string, Rows>();

  constructor(segment: Segment, options: CompileOptions) {
    this.#segment = segment;
    this.#options = options;
    const { outputs, model: { graph } } = segment;
    const dtype = findDtype(new GraphIndex(graph), segment);
    const operands = options.nodes.flatMap(({ q, k, v }) => [q.tensor, k.tensor, v.tensor]);
    const kept = outputs.map(({ name }) => name).filter((name) => options.kept.has(name));
    const wanted = new Set([...kept, ...operands]);
    this.#index = new GraphIndex(simplifyToRows(graph, { dtype, inputs: segment.inputs, wanted }));
    this.#operands = new Map(
      Array.from(
        options.operands ?? [],
        ([name, operand]) => [findOriginal(this.#index, name), operand] as const,
      ),
    );
    const { kept: stays, hasTiles } = options;
    this.#program = new ProgramBuilder({ kept: stays, hasTiles });
    this.#planner = new ProductPlanner(this.#index, (name) => options.kept.has(name));
  }

  compile() {
    const { nodes, kept: names, tables } = this.#options;
    const kept = this.#segment.outputs.filter(({ name }) => names.has(name));
    for (const { name } of kept) {
      // If an output only reshapes a tensor, that tensor is computed into the output's buffer.
      const root = findOriginal(this.#index, name);
      if (root !== name && this.#index.producers.has(root)) this.#program.writeInto(name, root);
    }
    const getRows = (name: string) => this.#rows(name);
    // Operands come before the outputs, because products for the operands may also compute tensors that are kept.
    const search = { index: this.#index, program: this.#program, tables, getRows };
    const layouts = nodes.map((node) => findOperandLayout(search, node));
    for (const output of kept) this.#settle(output);
    return { ...this.#program.finish(), layouts };
  }

  /** Computes an output into its own buffer. */
  #settle({ name, dtype }: TensorPort): void {
    const rows = this.#rows(name);
    if (dtype !== (rows.elem === "f16" ? "float16" : "float32")) {
      throw new Refusal(`Its output "${name}" is ${dtype}, computed as ${rows.elem}.`);
    }
    if (rows.tensor === name && rows.offset === 0 && rows.stride === rows.width) return;
    this.#program.pointwise(name, { a: rows });
  }

  get #search(): RowSearch {
    return {
      index: this.#index,
      program: this.#program,
      getRows: (name) => this.#rows(name),
      isKnown: (name) => this.#known.has(name),
    };
  }

  /** Returns the rows of a tensor, and first adds the dispatches that compute them if there are none yet. */
  #rows(name: string): Rows {
    let rows = this.#known.get(name);
    if (rows === undefined) this.#known.set(name, rows = this.#compute(name));
    return rows;
  }

  #compute(name: string): Rows {
    const node = this.#index.producers.get(name);
    if (node === undefined) return this.#input(name);
    const plan = this.#planner.plan(name);
    if (plan !== undefined) return this.#product(name, plan);
    if (this.#isRotated(name)) return this.#operand(name, node);
    const norm = findNorm(this.#index, name);
    if (norm !== undefined) return this.#program.norm(name, { x: this.#normed(norm), norm });
    if (isReshape(node)) return this.#rows(node.inputs[0]!);
    const activation = findActivation(this.#index, name);
    if (activation !== undefined) {
      const { activation: kind } = activation;
      return this.#program.pointwise(name, { a: this.#rows(activation.input), activation: kind });
    }
    if (node.opType.startsWith("Skip") && name === node.outputs[3]) return this.#sum(name, node);
    switch (node.opType) {
      case "Add":
        return this.#sum(name, node);
      case "Mul":
      case "Div":
        return compileMultiply(this.#search, name, node);
      case "Clip":
        return compileClip(this.#search, name, node);
      case "Neg":
        return this.#program.pointwise(name, { a: this.#rows(node.inputs[0]!), scale: -1 });
      case "Concat":
        return this.#joined(name, node);
      case "Split":
        return readPart(this.#index, { whole: this.#rows(node.inputs[0]!), node, name });
      case "Cast":
        return this.#cast(name, node);
      case "Transpose":
        return this.#operand(name, node);
      case "Gather":
        return takeRows(this.#search, {
          name,
          node,
          segment: this.#segment,
          allRows: this.#options.allRows,
        });
      default:
        throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
    }
  }

  /**
   * Whether a tensor is an operand of an attention node whose heads the graph rotates, and perhaps normalises or scales
   * by their position afterwards.
   */
  #isRotated(name: string): boolean {
    const { kind, node } = this.#operands.get(name) ?? {};
    if (node === undefined) return false;
    const norm = findNorm(this.#index, name);
    const isOfHeads = norm?.inputs.length === 1 && norm.gamma.shape[0] === node.headDim;
    const scaled = kind === "q"
      ? findFactors(this.#options.tables, this.#index.producers.get(name)!)
      : undefined;
    const rotated = isOfHeads ? norm.inputs[0]! : scaled?.other ?? name;
    return findRotation(this.#index, findOriginal(this.#index, rotated), node.headDim) !==
      undefined;
  }

  #operand(name: string, node: Node): Rows {
    const operand = this.#operands.get(name);
    const isOther = node.opType === "Transpose" &&
      readIntsAttribute(node, "perm")?.join() !== SWAPPED_HEADS.join();
    if (operand === undefined || isOther) {
      throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
    }
    const { tables } = this.#options;
    return computeOperand({ ...this.#search, tables }, operand);
  }

  #input(name: string): Rows {
    const port = this.#segment.inputs.find((input) => input.name === name);
    if (port === undefined) {
      throw new Refusal(`It computes with "${name}", which does not have a row per token.`);
    }
    return findPortRows(port);
  }

  #cast(name: string, node: Node): Rows {
    const to = (["float32", "float16"] as const).find((dtype) =>
      toDtypeCode(dtype) === readIntAttribute(node, "to")
    );
    if (to === undefined) throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
    const elem = toElem(to);
    const input = findOriginal(this.#index, node.inputs[0]!);
    const split = this.#index.producers.get(input);
    if (split?.opType !== "Split" || this.#known.has(input)) {
      return this.#converted(name, input, elem);
    }
    // Converts the whole row once, rather than each part.
    const [whole] = split.inputs as [string];
    const rows = this.#inElem(whole, elem);
    return readPart(this.#index, { whole: rows, node: split, name: input });
  }

  #inElem(name: string, elem: Elem): Rows {
    const converted = `${name}/${elem}`;
    const rows = this.#known.get(converted) ?? this.#converted(converted, name, elem);
    this.#known.set(converted, rows);
    return rows;
  }

  #converted(name: string, input: string, elem: Elem): Rows {
    const rows = this.#rows(input);
    return rows.elem === elem ? rows : this.#program.pointwise(name, { a: rows, elem });
  }

  /** Joins the parts of a row that several products compute, such as those of a divided matrix. */
  #joined(name: string, node: Node): Rows {
    const axis = readIntAttribute(node, "axis");
    const plans = node.inputs.map((input) => this.#planner.inner(input, node));
    const isJoin = axis === -1 || axis === 2;
    if (!isJoin || plans.some((plan) => plan === undefined || plan.residual !== undefined)) {
      throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
    }
    const widths = plans.map((plan) => plan!.gate?.n ?? plan!.matrix.outputs);
    const total = widths.reduce((sum, width) => sum + width, 0);
    const rows = this.#program.reserve(name, total, findPlanElem(plans[0]!));
    let offset = 0;
    for (const [i, width] of widths.entries()) {
      this.#product(node.inputs[i]!, plans[i]!, { ...rows, offset, width });
      offset += width;
    }
    return rows;
  }

  #product(name: string, plan: ProductPlan, within?: Rows): Rows {
    const { k, outputs } = plan.matrix;
    const { hasTiles, writesSums } = this.#options;
    const found = findNorm(this.#index, findOriginal(this.#index, plan.input));
    const elem = findPlanElem(plan);
    const isTaken = found?.gamma.shape[0] === k && findElem(found.gamma) === elem &&
      !(hasTiles && found.params.kind === "layer");
    const norm = isTaken ? found : undefined;
    const n = plan.gate?.n ?? outputs;
    const requireWidth = ({ width }: Rows) => {
      if (width === k) return;
      throw new Refusal(`Its product "${name}" reads only ${k} of a row's ${width} elements.`);
    };
    const sum = writesSums && !hasTiles
      ? findSum(this.#index, { plan, norm, isFree: (...read) => this.#isReadBy(...read) })
      : undefined;
    if (sum !== undefined && !this.#known.has(sum.name)) {
      const x = this.#normed(sum.norm);
      requireWidth(x);
      const residual = this.#whole(sum.residual, k, elem);
      const { rows, summed } = this.#program.matvecOfSum(name, {
        ...{ plan, x, norm, residual, within },
        sum: sum.norm,
        sumName: sum.name,
      });
      this.#known.set(sum.name, summed);
      return rows;
    }
    const x = norm ? this.#normed(norm) : this.#rows(plan.input);
    const residual = plan.residual === undefined ? undefined : this.#whole(plan.residual, n, elem);
    requireWidth(x);
    return this.#program.matvec(name, { plan, x, norm, residual, within });
  }

  /** Returns the rows that a norm is applied to. */
  #normed({ node, inputs, gamma }: FoundNorm): Rows {
    // A recognized norm may include a cast of its input. The norm computes in the type of its factors.
    if (inputs.length === 1) return this.#inElem(inputs[0]!, findElem(gamma));
    const name = nameSum(node);
    const rows = this.#known.get(name) ?? this.#sum(name, node);
    this.#known.set(name, rows);
    return rows;
  }

  /** Computes the sum of a node's first two inputs, and of its bias if it is a norm of a sum with one. */
  #sum(name: string, node: Node): Rows {
    const operands = node.inputs.slice(0, 2) as [string, string];
    const plan = this.#planner.addTo(operands, node);
    const bias = readSkipBias(this.#index, node);
    if (bias !== undefined) return this.#product(name, this.#planner.withBias(plan, bias, node));
    if (plan !== undefined) return this.#product(name, plan);
    const vector = eitherInput(node, (input) => readVector(this.#index, input));
    if (vector !== undefined) {
      return this.#program.pointwise(name, { a: this.#rows(vector.other), add: vector.found });
    }
    const [left, right] = operands;
    for (const [normed, other] of [[left, right], [right, left]] as const) {
      const norm = this.#isReadBy(normed, node) ? findNorm(this.#index, normed) : undefined;
      if (norm === undefined) continue;
      const x = this.#normed(norm);
      return this.#program.norm(name, { x, norm, residual: this.#whole(other, x.width, x.elem) });
    }
    return this.#program.pointwise(name, { a: this.#rows(left), add: this.#rows(right) });
  }

  /** Whether a tensor has not been computed yet, and only this node reads it. */
  #isReadBy(name: string, node: Node): boolean {
    const isOther = this.#known.has(name) || this.#options.kept.has(name);
    return !isOther && this.#index.onlyConsumer(name) === node;
  }

  /** Returns a tensor that consists only of contiguous rows of this width and data type. */
  #whole(name: string, width: number, elem: Elem): string {
    const rows = this.#rows(name);
    if (rows.width !== width) {
      throw new Refusal(`"${name}" of ${rows.width} elements is added to rows of ${width}.`);
    }
    if (rows.elem !== elem) {
      throw new Refusal(`"${name}" is ${rows.elem} where ${elem} is computed.`);
    }
    return makeDense(this.#search, name).tensor;
  }
}
