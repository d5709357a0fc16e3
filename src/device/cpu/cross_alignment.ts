/**
 * Alignment to an encoder on the CPU: the reference implementation, with the keys of the SIMD kernels.
 *
 * @module
 */
import { addAlignment } from "../../../kernels/alignment/alignment_reference.ts";
import { Tensor } from "../ort/ort.ts";
import type { KernelParams } from "../attention_params.ts";
import type { CrossAlignment, CrossAlignmentOptions, TakenText } from "../cross_alignment.ts";
import { copyElements } from "./tensors.ts";

/** A cross-attention node and its cached keys. */
interface KeptNode {
  readonly params: KernelParams;
  /** Returns the first keys of a head in a slot: f32 `[numKeys, headSize]`. */
  readonly getKeys: (head: number, slot: number, numKeys: number) => Float32Array;
}

interface Layer extends KeptNode {
  readonly heads: readonly number[];
  /** Queries: f32 `[maxTokens, stride]`. */
  readonly queries: Float32Array;
}

export class CpuCrossAlignment implements CrossAlignment {
  /** Layers by the index of their attention node. */
  readonly #layers: ReadonlyMap<number, Layer>;
  readonly #numHeads: number;

  /** @param kept every cross-attention node. */
  constructor({ nodes, maxTokens }: CrossAlignmentOptions, kept: readonly KeptNode[]) {
    this.#layers = new Map(nodes.map(({ layer, heads }) => {
      const node = kept[layer]!;
      const queries = new Float32Array(maxTokens * node.params.write.q.stride);
      return [layer, { ...node, heads, queries }];
    }));
    this.#numHeads = nodes.reduce((sum, { heads }) => sum + heads.length, 0);
  }

  take(layer: number, queries: Tensor, firstToken: number): void {
    const own = this.#layers.get(layer);
    if (own === undefined) return;
    const { stride } = own.params.write.q;
    copyElements(queries, own.queries.subarray(firstToken * stride), 0, queries.dims[1]! * stride);
  }

  align({ slot, numTokens, numPositions }: TakenText): Tensor {
    const alignment = new Float32Array(numTokens * numPositions);
    for (const { params, heads, queries, getKeys } of this.#layers.values()) {
      const { shape: { heads: allHeads, kvHeads, headSize }, write: { q }, attend } = params;
      for (const head of heads) {
        const own = new Float32Array(numTokens * headSize);
        for (let token = 0; token < numTokens; token++) {
          const at = token * q.stride + q.offset + head * headSize;
          own.set(queries.subarray(at, at + headSize), token * headSize);
        }
        addAlignment(alignment, {
          queries: own,
          keys: getKeys(Math.floor(head / (allHeads / kvHeads)), slot, numPositions),
          ...{ numTokens, numKeys: numPositions, headSize },
          scale: attend.scale,
          share: 1 / this.#numHeads,
        });
      }
    }
    return new Tensor("float32", alignment, [numTokens, numPositions]);
  }

  /** The garbage collector frees the memory. */
  dispose(): void {}
}
