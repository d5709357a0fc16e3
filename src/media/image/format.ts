/**
 * The common part of image formats: their interface, the error for a damaged file, and decoders compiled to
 * WebAssembly. Decoders are loaded on demand, and replaced after a failure or when their memory has grown.
 *
 * @module
 */
import { HearthError, invalidMedia } from "../../base/errors.ts";
import type { Pixels } from "../pixels.ts";
import type { Orientation } from "./tiff_tags.ts";

/** An image's size and orientation, from the file's header. */
export interface ImageSize {
  /** Width as stored. With orientations 5 to 8, the image is shown rotated by a quarter turn. */
  readonly width: number;
  /** Height as stored. */
  readonly height: number;
  readonly orientation: Orientation;
}

/** A format of image files. Any error thrown by its functions means that the file is damaged. */
export interface ImageFormat {
  readonly name: string;
  /** Whether a file has this format, by its first bytes. */
  readonly matches: (file: Uint8Array) => boolean;
  /** Reads the size from the header, without allocating memory for pixels. */
  readonly readSize: (file: Uint8Array<ArrayBuffer>) => ImageSize;
  /**
   * Decodes the first image as it is stored, ignoring its orientation.
   *
   * @param size result of `readSize`; the decoded image must have this size.
   */
  readonly decode: (file: Uint8Array<ArrayBuffer>, size: ImageSize) => Pixels | Promise<Pixels>;
}

/** The source of a codec. */
interface WasmCodec<Decoder> {
  /** The URL of its `.wasm` file. */
  readonly locate: () => string;
  /** Emscripten's factory function. */
  readonly load: () => Promise<
    (options: {
      readonly noInitialRun: true;
      readonly print: () => void;
      readonly printErr: (line: string) => void;
      readonly instantiateWasm: (
        imports: WebAssembly.Imports,
        done: (instance: WebAssembly.Instance) => void,
      ) => WebAssembly.Exports;
    }) => Promise<Decoder>
  >;
}

/** The properties of a file that are known before it is decoded. */
interface ImageToDecode {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  /** Part of the message with which the decoder reports a truncated file; decoders may return an image nevertheless. */
  readonly cutOff?: string | undefined;
}

/** The decoders' result: RGBA. */
interface DecodedImage {
  readonly width: number;
  readonly height: number;
  readonly data: ArrayBufferView;
}

interface Instance<Decoder> {
  readonly decoder: Decoder;
  readonly memory: WebAssembly.Memory;
}

/** An instance with more memory than this is dropped, because WebAssembly memory never shrinks. */
const MAX_KEPT_BYTES = 32 * 2 ** 20;

/** Decodes images with one codec. */
export class WasmImageDecoder<Decoder> {
  readonly #codec: WasmCodec<Decoder>;
  #module: Promise<WebAssembly.Module> | undefined;
  #instance: Instance<Decoder> | undefined;
  /** The decoder's last message about the current file. */
  #complaint = "";
  #cutOff: string | undefined;
  #isCutOff = false;

  constructor(codec: WasmCodec<Decoder>) {
    this.#codec = codec;
  }

  /**
   * Calls the decoder. An instance that throws or traps is never used again.
   *
   * @throws {HearthError} `invalid_media` when the decoder returns no image or one of another size, `inference_failed`
   * when the decoder cannot be loaded.
   */
  async decode(
    call: (decoder: Decoder) => DecodedImage | null,
    { name, width, height, cutOff }: ImageToDecode,
  ): Promise<Pixels> {
    const { decoder, memory } = this.#instance ?? await this.#load(name);
    // There is no await from here on, so that no other image can use the instance.
    this.#instance = undefined;
    this.#complaint = "";
    this.#cutOff = cutOff;
    this.#isCutOff = false;
    let image: DecodedImage | null;
    try {
      image = call(decoder);
    } catch (error) {
      if (error instanceof HearthError) throw error;
      const state = this.#isCutOff ? "cut off." : `damaged${this.#reason()}`;
      throw invalidMedia(`The ${name} file is ${state}`, error);
    }
    if (memory.buffer.byteLength <= MAX_KEPT_BYTES) this.#instance = { decoder, memory };
    if (this.#isCutOff) throw invalidMedia(`The ${name} file is cut off.`);
    if (image === null) {
      throw invalidMedia(`The ${name} file is damaged or cut off${this.#reason()}`);
    }
    if (image.width !== width || image.height !== height) {
      throw invalidMedia(
        `The ${name} file is damaged: it holds ${image.width} × ${image.height} pixels, but its ` +
          `header says ${width} × ${height}.`,
      );
    }
    const { buffer, byteOffset, byteLength } = image.data;
    const data = new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
    return { width, height, channels: 4, data };
  }

  /** The decoder's last message, as the end of an error message. */
  #reason(): string {
    return this.#complaint === "" ? "." : `: ${this.#complaint}.`;
  }

  async #load(name: string): Promise<Instance<Decoder>> {
    try {
      return await this.#instantiate();
    } catch (error) {
      this.#module = undefined;
      throw new HearthError(
        "inference_failed",
        `The decoder of ${name} files could not be loaded; the server's log says why.`,
        { cause: error },
      );
    }
  }

  async #instantiate(): Promise<Instance<Decoder>> {
    this.#module ??= Deno.readFile(new URL(this.#codec.locate())).then((code) =>
      WebAssembly.compile(code)
    );
    const [module, factory] = await Promise.all([this.#module, this.#codec.load()]);
    let memory: WebAssembly.Memory | undefined;
    const decoder = await factory({
      noInitialRun: true,
      print: () => {},
      printErr: (line) => {
        // Only the last message is kept: it says why the decoder gave up, and a damaged file can cause thousands.
        this.#complaint = line;
        this.#isCutOff ||= this.#cutOff !== undefined && line.includes(this.#cutOff);
      },
      instantiateWasm(imports, done) {
        const instance = new WebAssembly.Instance(module, imports);
        memory = Object.values(instance.exports).find((value) =>
          value instanceof WebAssembly.Memory
        );
        done(instance);
        return instance.exports;
      },
    });
    return { decoder, memory: memory! };
  }
}
