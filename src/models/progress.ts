/**
 * What loading a model tells those who wait.
 *
 * @module
 */
/** How far loading is. */
export interface LoadProgress {
  /** What happens now, as a person would read it: `reading onnx/model_q4.onnx`. */
  readonly what: string;
  /** 0 to 1, where it can be told; of a download, of all its files. */
  readonly fraction?: number | undefined;
  /** More for whoever watches: `238 MB of 568 MB, 12.4 MB/s, 27 s left`. */
  readonly detail?: string | undefined;
}
