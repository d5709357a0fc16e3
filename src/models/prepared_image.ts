/**
 * What becomes of an image before a vision model's encoder sees it: plain data that crosses between threads.
 *
 * @module
 */
/** A tensor in ordinary memory. */
export interface PlainTensor {
  /** Element type as ONNX Runtime names it. */
  readonly type: string;
  readonly data: Float32Array | Float16Array | BigInt64Array | Int32Array | Uint8Array;
  readonly dims: readonly number[];
}

/** An image as it comes. */
export interface ImageToPrepare {
  /** A file of any format that is known. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Whether models that look at an image in tiles too are to be shown the whole of it alone. */
  readonly inOnePiece?: boolean | undefined;
}

/** An image ready for the encoder. */
export interface PreparedImage {
  /** What stands for it in the prompt: among other words one image token for each row that the encoder gives. */
  readonly text: string;
  /** The encoder's inputs, by the names that transformers.js has for them. */
  readonly tensors: Readonly<Record<string, PlainTensor>>;
}

/** To the thread that prepares images: the model's folder at first, then one image at a time. */
export type ToVisionThread =
  | { readonly type: "load"; readonly folder: string }
  | ({
    readonly type: "prepare";
    /** Largest width × height that is decoded; the decoder's own limit if absent. */
    readonly maxPixels: number | undefined;
  } & ImageToPrepare);

/** From that thread, one answer to each message, unless it refuses or fails. */
export type FromVisionThread =
  | { readonly type: "loaded"; readonly placeholder: string }
  | { readonly type: "prepared"; readonly image: PreparedImage };
