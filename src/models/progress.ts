/**
 * The progress of loading a model.
 *
 * @module
 */
/** The progress of loading. */
export interface LoadProgress {
  /** The current step, in words: `reading onnx/model_q4.onnx`. */
  readonly what: string;
  /** 0 to 1, if known; for a download, of all its files. */
  readonly fraction?: number | undefined;
  /** Details: `238 MB of 568 MB, 12.4 MB/s, 27 s left`. */
  readonly detail?: string | undefined;
}
