/**
 * Attention in the decoder of an encoder-decoder model: the projection of the encoder's output to keys and values,
 * self-attention over the paged cache and cross-attention, and the alignment of texts by the weights of
 * cross-attention.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import type {
  CrossAlignment,
  CrossAlignmentOptions,
  CrossAttention,
  CrossTensors,
  NodeHeads,
} from "../device/encoder_attention.ts";
import { type CrossInputs, keepOutputs, toPresentName } from "../graph/cut/merged_decoder.ts";
import type { FolderFiles } from "../graph/file/external_data.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import type { AttentionNode } from "../graph/graph_cut.ts";
import { disposeTensors, type GraphSession, type Tensor } from "../device/ort/ort.ts";
import { swapHeadsAndTokens } from "../graph/rewrite/token_rows.ts";
import type {
  AttentionOptions,
  AttentionStep,
  LayoutConstants,
  PagedAttention,
  RecordAttention,
} from "../device/attention.ts";
import type { OperandLayout } from "../program/program.ts";
import type { StepBatch } from "./decoder.ts";
import type { PagedDecoder } from "./paged_decoder.ts";

/** Options of a projection. */
interface CrossProjectionOptions {
  readonly backend: Backend;
  readonly files: FolderFiles;
  /** The cross-attention nodes of the decoder, and the cache inputs that each of them reads. */
  readonly nodes: ReadonlyMap<AttentionNode, CrossInputs>;
  /** Maximum number of positions in the encoder's output for one input. */
  readonly numPositions: number;
  /** Maximum number of inputs in one call. */
  readonly maxInputs: number;
}

/** Receives the keys and values of a cross-attention node, `[inputs, positions, kvHeads, headDim]`. */
type TakeProjected = (layer: number, tensors: CrossTensors) => void;

/** A graph, and the nodes that read its outputs. */
interface Projection {
  readonly session: GraphSession;
  readonly nodes: readonly (readonly [AttentionNode, CrossInputs])[];
}

const HIDDEN = "encoder_hidden_states";

/**
 * Runs the projection. On the CPU there is a graph for each node, and all of them write to the same memory, because for
 * Whisper base the keys and values of all nodes would take 35 MiB.
 */
export class CrossProjection {
  readonly #projections: readonly Projection[];
  /** Memory for keys and values, unless ONNX Runtime allocates it. */
  readonly #storages: readonly Storage[];

  private constructor(projections: readonly Projection[], storages: readonly Storage[]) {
    this.#projections = projections;
    this.#storages = storages;
  }

  /**
   * Opens the graphs that compute the outputs `present.*` of the nodes from `encoder_hidden_states`.
   *
   * @throws {Error} with ONNX Runtime's message when it refuses the graph.
   */
  static async open(model: ModelProto, options: CrossProjectionOptions): Promise<CrossProjection> {
    const { backend, files, numPositions, maxInputs } = options;
    const nodes = [...options.nodes].map(([node, { keys, values }]) =>
      [node, { keys: toPresentName(keys), values: toPresentName(values) }] as const
    );
    const isCpu = backend.kind === "cpu";
    const groups = isCpu ? nodes.map((node) => [node]) : [nodes];
    const projections: Projection[] = [];
    for (const nodes of groups) {
      const names = nodes.flatMap(([, { keys, values }]) => [keys, values]);
      const graph = swapHeadsAndTokens(keepOutputs(model, names));
      const session = await backend.openModel(graph, files, { keepsMemory: false });
      projections.push({ session, nodes });
    }
    const widest = Math.max(...nodes.map(([{ kvHeads, headDim }]) => kvHeads * headDim));
    const numBytes = 4 * maxInputs * numPositions * widest;
    const storages = isCpu ? [backend.allocate(numBytes), backend.allocate(numBytes)] : [];
    return new CrossProjection(projections, storages.filter((storage) => storage !== undefined));
  }

  /**
   * Projects the encoder's output, node by node.
   *
   * @param hidden `[inputs, positions, width]`.
   * @param take is called for each node. It must copy the tensors, or record their copy, before it returns.
   */
  async run(hidden: Tensor, take: TakeProjected): Promise<void> {
    for (const { session, nodes } of this.#projections) {
      const projected = await session.run({ [HIDDEN]: hidden }, this.#getOutputs(nodes, hidden));
      for (const [{ layer }, { keys, values }] of nodes) {
        take(layer, { keys: projected[keys]!, values: projected[values]! });
      }
      disposeTensors(projected);
    }
  }

  async dispose(): Promise<void> {
    for (const { session } of this.#projections) await session.release();
    for (const storage of this.#storages) storage.dispose();
  }

  #getOutputs(
    nodes: Projection["nodes"],
    { dims: [numInputs, numPositions] }: Tensor,
  ): Record<string, Tensor> | undefined {
    const [ofKeys, ofValues] = this.#storages;
    if (ofKeys === undefined || ofValues === undefined) return undefined;
    const [[node, { keys, values }]] = nodes as [Projection["nodes"][number]];
    const dims = [numInputs!, numPositions!, node.kvHeads, node.headDim];
    return {
      [keys]: ofKeys.tensor(node.dtype, dims),
      [values]: ofValues.tensor(node.dtype, dims),
    };
  }
}

/** Options of this attention. */
interface EncoderDecoderOptions extends AttentionOptions {
  readonly backend: Backend;
  /** Whether a node attends to the encoder. */
  readonly isCross: (node: AttentionNode) => boolean;
  /** Maximum number of positions in the encoder's output for one input. */
  readonly numPositions: number;
  /** Maximum number of inputs whose keys and values are cached at once. */
  readonly numSlots: number;
  /** Maximum number of inputs that are added in one call. */
  readonly maxInputs: number;
}

/** The alignment that collects the cross-attention queries of a step. */
interface QueryCapture {
  readonly alignment: CrossAlignment;
  /** Position of the step's first token in its text. */
  readonly firstToken: number;
}

export class EncoderDecoderAttention implements PagedAttention {
  readonly #own: PagedAttention;
  readonly #cross: CrossAttention;
  /** Whether each node is self- or cross-attention, and its index among the nodes of that kind. */
  readonly #layers: readonly { readonly isCross: boolean; readonly layer: number }[];
  readonly #nodes: readonly AttentionNode[];
  #capture: QueryCapture | undefined;

  /** @throws {RangeError} when the kernels cannot run a node's shape. */
  constructor(
    { backend, isCross, numPositions, numSlots, maxInputs, ...options }: EncoderDecoderOptions,
  ) {
    const { nodes, maxTokens } = options;
    const own = nodes.filter((node) => !isCross(node));
    const cross = nodes.filter(isCross);
    this.#nodes = nodes;
    this.#layers = nodes.map((node) =>
      isCross(node)
        ? { isCross: true, layer: cross.indexOf(node) }
        : { isCross: false, layer: own.indexOf(node) }
    );
    this.#own = backend.openAttention({ ...options, nodes: own });
    this.#cross = backend.openCrossAttention({
      nodes: cross,
      numPositions,
      numSlots,
      maxInputs,
      maxTokens,
    });
  }

  /** Caches the keys and values of a cross-attention node. @param node index of the node in the cut. */
  keep(node: number, tensors: CrossTensors, slots: readonly number[]): void {
    this.#cross.keep(this.#layers[node]!.layer, tensors, slots);
  }

  /** Opens the alignment of texts with the encoder's output. The caller owns it. */
  openAlignment(options: CrossAlignmentOptions): CrossAlignment {
    return this.#cross.openAlignment(options);
  }

  /** Sets the alignment that collects the cross-attention queries of the next steps; none if absent. */
  captureQueries(capture?: QueryCapture): void {
    this.#capture = capture;
  }

  begin(step: AttentionStep): void {
    this.#own.begin(step);
    const { queryStarts } = step;
    this.#cross.begin(
      step.sequences.flatMap(({ encoderSlot }, s) =>
        new Array<number>(queryStarts[s + 1]! - queryStarts[s]!).fill(encoderSlot!)
      ),
    );
  }

  run(
    node: number,
    tensors: ReadonlyMap<string, Tensor>,
    output: Tensor | undefined,
  ): Tensor | Promise<Tensor> {
    const { isCross, layer } = this.#layers[node]!;
    if (!isCross) return this.#own.run(layer, tensors, output);
    if (this.#capture !== undefined) {
      const { alignment, firstToken } = this.#capture;
      alignment.take(layer, tensors.get(this.#nodes[node]!.q.tensor)!, firstToken);
    }
    return this.#cross.run(layer, tensors, output);
  }

  /** Only self-attention reads operands as kernels leave them: the keys of the encoder's output are already cached. */
  takesLayout(node: number): boolean {
    const { isCross, layer } = this.#layers[node]!;
    return !isCross && (this.#own.takesLayout?.(layer) ?? false);
  }

  openLayout(layout: OperandLayout, constants: LayoutConstants): RecordAttention {
    return this.#own.openLayout!(
      { ...layout, layer: this.#layers[layout.layer]!.layer },
      constants,
    );
  }

  dispose(): void {
    this.#own.dispose();
    this.#cross.dispose();
  }
}

/** Options of {@linkcode TextAligner}. */
interface TextAlignerOptions {
  readonly backend: Backend;
  readonly decoder: PagedDecoder;
  readonly attention: EncoderDecoderAttention;
  /** First of the decoder's blocks that are reserved for the aligner: enough for one sequence. */
  readonly firstBlock: number;
  readonly blocksPerSequence: number;
}

/** A text, and the slot of its encoder input. */
interface SlotText {
  readonly slot: number;
  readonly tokens: readonly number[];
  readonly numPositions: number;
  readonly nodes: readonly NodeHeads[];
}

/** Aligns texts: each text runs through the decoder, and the weights of its alignment heads give the alignment. */
export class TextAligner {
  readonly #options: TextAlignerOptions;
  /**
   * Memory for alignments, by alignment heads. It is allocated for the first text, because most decoders never align.
   */
  readonly #alignments = new Map<readonly NodeHeads[], CrossAlignment>();

  constructor(options: TextAlignerOptions) {
    this.#options = options;
  }

  /**
   * Aligns a text.
   *
   * @returns f32 `[tokens, numPositions]`: how much more than other tokens each token attends to each position.
   */
  async align({ slot, tokens, numPositions, nodes }: SlotText): Promise<Float32Array> {
    const { backend, decoder, attention } = this.#options;
    const { contextLength, maxBatchTokens } = decoder.limits;
    const alignment = this.#alignments.get(nodes) ??
      attention.openAlignment({ nodes, maxTokens: contextLength });
    this.#alignments.set(nodes, alignment);
    try {
      for (let first = 0; first < tokens.length; first += maxBatchTokens) {
        attention.captureQueries({ alignment, firstToken: first });
        const step = this.#getStep(tokens.slice(first, first + maxBatchTokens), { first, slot });
        // Runs the text. No rows are wanted.
        for await (const _ of decoder.forward(step));
      }
    } finally {
      attention.captureQueries();
    }
    return await backend.read(alignment.align({ slot, numTokens: tokens.length, numPositions }));
  }

  /** Frees the aligner's memory. */
  dispose(): void {
    for (const alignment of this.#alignments.values()) alignment.dispose();
  }

  #getStep(
    tokens: readonly number[],
    { first, slot }: { readonly first: number; readonly slot: number },
  ): StepBatch {
    const { firstBlock, blocksPerSequence } = this.#options;
    return {
      sequences: [{ sequenceId: 0, encoderSlot: slot }],
      numTokens: tokens.length,
      tokenIds: Int32Array.from(tokens),
      positions: Int32Array.from(tokens, (_, i) => first + i),
      queryStarts: Int32Array.of(0, tokens.length),
      kvLengths: Int32Array.of(first + tokens.length),
      blockTables: Int32Array.from({ length: blocksPerSequence }, (_, i) => firstBlock + i),
      maxBlocksPerSequence: blocksPerSequence,
    };
  }
}
