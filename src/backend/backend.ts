/**
 * What a decoder needs of a device.
 *
 * @module
 */
import type { SampledToken, SampleRow } from "../../kernels/sample_row.ts";
import type { ExternalData, Session, Tensor } from "../onnx/ort.ts";

/** A device that runs graphs and kernels. It owns all memory it hands out until `dispose`. */
export interface Backend {
  readonly kind: "webgpu" | "cpu";
  /** What the device is called, for people. */
  readonly adapter: string;
  /** Whether graphs and kernels may compute in f16. */
  readonly hasF16: boolean;
  /** Resolves with the reason when the device is gone; never on the CPU. */
  readonly lost: Promise<string>;
  /** Opens a graph whose outputs stay on this device. */
  openSession(model: Uint8Array, externalData?: readonly ExternalData[]): Promise<Session>;
  /**
   * Chooses a token from each of the rows `firstRow`, `firstRow + 1` …
   *
   * @param logits f32 or f16 `[1, tokens, vocabSize]`, as a session of this backend gave it.
   * @throws {NothingToSampleError} when a row has no token to choose.
   */
  sample(logits: Tensor, firstRow: number, rows: readonly SampleRow[]): Promise<SampledToken[]>;
  dispose(): void;
}
