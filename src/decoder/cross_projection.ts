/**
 * Projects the encoder's output to the keys and values of a decoder's cross-attentions.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import type { CrossTensors } from "../device/cross_attention.ts";
import type { CrossInputs } from "../graph/attention/step_attention.ts";
import { presentName } from "../graph/cut/cache_names.ts";
import type { FolderFiles } from "../graph/file/external_data.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import type { AttentionSite } from "../graph/graph_cut.ts";
import { disposeTensors, type GraphSession, type Tensor } from "../device/ort/ort.ts";
import { keepOutputs } from "../graph/rewrite/if_branch.ts";
import { swapHeadsAndTokens } from "../graph/rewrite/swap_outputs.ts";

/** How to open it. */
interface CrossProjectionOptions {
  readonly backend: Backend;
  readonly files: FolderFiles;
  /** The cross-attentions of the cut, and the cache inputs that each reads. */
  readonly sites: ReadonlyMap<AttentionSite, CrossInputs>;
  /** Most positions of the encoder's output for one input. */
  readonly numPositions: number;
  /** Most inputs in one call. */
  readonly maxInputs: number;
}

/** Takes the keys and values of the site `layer` of the cut, `[inputs, positions, kvHeads, headDim]`. */
type TakeProjected = (layer: number, tensors: CrossTensors) => void;

/** A graph, and the sites that read its outputs. */
interface Projection {
  readonly session: GraphSession;
  readonly sites: readonly (readonly [AttentionSite, CrossInputs])[];
}

const HIDDEN = "encoder_hidden_states";

/**
 * On the CPU each site has a graph of its own, and all write to the same memory: of Whisper's base size the keys and
 * values of all are 37 MiB.
 */
export class CrossProjection {
  readonly #projections: readonly Projection[];
  /** Where keys and values are written, if not where ONNX Runtime allocates them. */
  readonly #storages: readonly Storage[];

  private constructor(projections: readonly Projection[], storages: readonly Storage[]) {
    this.#projections = projections;
    this.#storages = storages;
  }

  /**
   * Opens the graph that turns `encoder_hidden_states` into `present.*` of the sites.
   *
   * @throws {Error} with ONNX Runtime's message when it refuses the graph.
   */
  static async open(model: ModelProto, options: CrossProjectionOptions): Promise<CrossProjection> {
    const { backend, files, numPositions, maxInputs } = options;
    const sites = [...options.sites].map(([site, { keys, values }]) =>
      [site, { keys: presentName(keys), values: presentName(values) }] as const
    );
    const isCpu = backend.kind === "cpu";
    const groups = isCpu ? sites.map((site) => [site]) : [sites];
    const projections: Projection[] = [];
    for (const sites of groups) {
      const names = sites.flatMap(([, { keys, values }]) => [keys, values]);
      const graph = swapHeadsAndTokens(keepOutputs(model, names));
      const session = await backend.openModel(graph, files, { keepsMemory: false });
      projections.push({ session, sites });
    }
    const widest = Math.max(...sites.map(([{ kvHeads, headDim }]) => kvHeads * headDim));
    const numBytes = 4 * maxInputs * numPositions * widest;
    const storages = isCpu ? [backend.allocate(numBytes), backend.allocate(numBytes)] : [];
    return new CrossProjection(projections, storages.filter((storage) => storage !== undefined));
  }

  /**
   * Projects the encoder's output, site by site.
   *
   * @param hidden `[inputs, positions, width]`.
   * @param take must have copied the tensors, or recorded that, when it returns.
   */
  async run(hidden: Tensor, take: TakeProjected): Promise<void> {
    for (const { session, sites } of this.#projections) {
      const projected = await session.run({ [HIDDEN]: hidden }, this.#getOutputs(sites, hidden));
      for (const [{ layer }, { keys, values }] of sites) {
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
    sites: Projection["sites"],
    { dims: [numInputs, numPositions] }: Tensor,
  ): Record<string, Tensor> | undefined {
    const [ofKeys, ofValues] = this.#storages;
    if (ofKeys === undefined || ofValues === undefined) return undefined;
    const [[site, { keys, values }]] = sites as [Projection["sites"][number]];
    const dims = [numInputs!, numPositions!, site.kvHeads, site.headDim];
    return {
      [keys]: ofKeys.tensor(site.dtype, dims),
      [values]: ofValues.tensor(site.dtype, dims),
    };
  }
}
