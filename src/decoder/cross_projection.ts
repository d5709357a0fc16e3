/**
 * Projects the encoder's output to the keys and values of a decoder's cross-attention nodes.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import type { CrossTensors } from "../device/encoder_attention.ts";
import { type CrossInputs, keepOutputs, presentName } from "../graph/cut/merged_decoder.ts";
import type { FolderFiles } from "../graph/file/external_data.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import type { AttentionNode } from "../graph/graph_cut.ts";
import { disposeTensors, type GraphSession, type Tensor } from "../device/ort/ort.ts";
import { swapHeadsAndTokens } from "../graph/rewrite/transposes.ts";

/** Options of a projection. */
interface CrossProjectionOptions {
  readonly backend: Backend;
  readonly files: FolderFiles;
  /** The cross-attention nodes of the decoder, and the cache inputs that each of them reads. */
  readonly nodes: ReadonlyMap<AttentionNode, CrossInputs>;
  /** Most positions in the encoder's output for one input. */
  readonly numPositions: number;
  /** Most inputs in one call. */
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
 * Whisper base the keys and values of all nodes would take 37 MiB.
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
      [node, { keys: presentName(keys), values: presentName(values) }] as const
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
