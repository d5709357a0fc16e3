/**
 * Constants that attention reads for the layouts in which compiled segments write its operands.
 *
 * @module
 */
import type { OperandLayout } from "../../program/program.ts";
import type { StoredTensor } from "../../graph/file/stored_tensor.ts";
import { createBuffer, type GpuContext } from "../../gpu/device.ts";
import type { AttentionStep, LayoutConstants } from "../paged_attention.ts";

/** Reads what these layouts need, by layer. Layers with the same table of angles share one array. */
export async function readConstants(
  layouts: readonly OperandLayout[],
  readFloats: (tensor: StoredTensor) => Promise<Float32Array>,
): Promise<Map<number, LayoutConstants>> {
  const constants = new Map<number, LayoutConstants>();
  const angles = new Map<string, Promise<Float32Array>>();
  const readAngles = (tensor: StoredTensor) => {
    const values = angles.get(tensor.name) ?? readFloats(tensor);
    angles.set(tensor.name, values);
    return values;
  };
  for (const { layer, norms, rotary } of layouts) {
    if (constants.has(layer)) continue;
    const [q, k] = await Promise.all(
      [norms?.q, norms?.k].map((tensor) => tensor && readFloats(tensor)),
    );
    const gammas = norms && new Float32Array(norms.sizes[0] + norms.sizes[1]);
    if (q) gammas!.set(q);
    if (k) gammas!.set(k, norms!.sizes[0]);
    constants.set(layer, {
      gammas,
      angles: rotary && { cos: await readAngles(rotary.cos), sin: await readAngles(rotary.sin) },
    });
  }
  return constants;
}

/**
 * The rotation angles of a step's tokens if a token has several positions. Their rows are assembled on the host. Memory
 * is allocated when it is constructed.
 */
export class StepAngles {
  /** Cosines, then sines, of each token: f32 `[maxTokens, 2, width]`. */
  readonly buffer: GPUBuffer;
  readonly #gpu: GpuContext;
  readonly #tables: readonly [cos: Float32Array, sin: Float32Array];
  readonly #sections: readonly number[];
  readonly #rows: Float32Array<ArrayBuffer>;

  /**
   * @param options.cos f32 `[positions, width]`, like `sin`.
   * @param options.sections for each element of a row, which of a token's positions it depends on.
   */
  constructor(gpu: GpuContext, { cos, sin, sections, maxTokens }: {
    readonly cos: Float32Array;
    readonly sin: Float32Array;
    readonly sections: readonly number[];
    readonly maxTokens: number;
  }) {
    this.#gpu = gpu;
    this.#tables = [cos, sin];
    this.#sections = sections;
    this.#rows = new Float32Array(maxTokens * 2 * sections.length);
    this.buffer = createBuffer(gpu, {
      label: "angles of a step",
      size: this.#rows.byteLength,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST,
    });
  }

  /** Writes a step's rows to the device, before anything that is submitted later. */
  write(
    { numTokens, positions, anglePositions = positions, sectionPositions }: AttentionStep,
  ): void {
    const width = this.#sections.length;
    const last = this.#tables[0].length / width - 1;
    let end = 0;
    for (let token = 0; token < numTokens; token++) {
      for (const table of this.#tables) {
        for (let i = 0; i < width; i++) {
          const own = sectionPositions?.[this.#sections[i]!] ?? anglePositions;
          this.#rows[end++] = table[Math.min(own[token]!, last) * width + i]!;
        }
      }
    }
    this.#gpu.device.queue.writeBuffer(this.buffer, 0, this.#rows, 0, end);
  }
}
