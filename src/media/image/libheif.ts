/**
 * The part of libheif-js that is used; its own types leave results open.
 *
 * @module
 */

/** Something that libheif owns. */
type Opaque = { readonly libheif: never };

/** An error, or a result that has no code. */
export interface LibHeifResult {
  readonly code?: unknown;
  readonly message?: string;
}

/** Pixels in libheif's memory. */
export interface LibHeifPlane {
  readonly width: number;
  readonly height: number;
  /** Bytes from one row to the next. */
  readonly stride: number;
  readonly data: Uint8Array;
}

/** An instance of libheif. */
export interface LibHeif {
  readonly heif_error_code: { readonly heif_error_Ok: unknown };
  readonly heif_colorspace: { readonly heif_colorspace_RGB: unknown };
  readonly heif_chroma: { readonly heif_chroma_interleaved_RGBA: unknown };
  heif_context_alloc(): Opaque;
  heif_context_free(context: Opaque): void;
  heif_context_read_from_memory(context: Opaque, file: Uint8Array): LibHeifResult;
  heif_js_context_get_primary_image_handle(context: Opaque): LibHeifResult & Opaque;
  heif_image_handle_release(handle: Opaque): void;
  heif_js_decode_image2(
    handle: Opaque,
    colorspace: unknown,
    chroma: unknown,
  ): LibHeifResult & { readonly image: Opaque; readonly channels: readonly LibHeifPlane[] };
  heif_image_release(image: Opaque): void;
}

/** Emscripten's factory. */
export type LibHeifFactory = (options: object) => Promise<LibHeif>;
