/**
 * Preprocesses images with the processors of transformers.js. For image-to-text models the result is the input of the
 * first graph. For vision-language models it is the encoder's inputs and the text that stands for the image in the
 * prompt.
 *
 * @module
 */
import { isRecord } from "../../base/json.ts";
import { type PlainTensors, toPlainTensors } from "../folder/graph_file.ts";
import { basename, dirname } from "node:path";
import type { RawImage } from "@huggingface/transformers";
import { HearthError, StartupError } from "../../base/errors.ts";
import { compositeOnWhite, type Pixels } from "../../media/pixels.ts";
import { loadTransformers, toRawImage, type Transformers } from "../../device/ort/hook.ts";
import {
  type Json,
  type ModelFolder,
  openFolder,
  readJson,
  readOptionalJson,
} from "../../hub/model_folder.ts";

export interface ImageToPrepare {
  /** An image file of any supported format. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Whether to keep the image whole in models that would otherwise divide it into tiles. */
  readonly keepsWhole?: boolean | undefined;
}

/** A preprocessed image or sound, for an encoder whose rows are part of a prompt. */
export interface PreparedMedium {
  /** The text that stands for it in the prompt, with one placeholder token for each row of the encoder. */
  readonly text: string;
  /** The encoder's inputs, by the names of transformers.js. */
  readonly tensors: PlainTensors;
}

/** Supported processor classes, and whether each takes the text before the image. */
const TAKES_TEXT_FIRST: Readonly<Record<string, boolean>> = {
  Qwen2VLProcessor: true,
  Qwen2_5_VLProcessor: true,
  Qwen3VLProcessor: true,
  Glm46VProcessor: true,
  Idefics3Processor: true,
  SmolVLMProcessor: true,
  Gemma3Processor: true,
  Gemma3nProcessor: true,
  Gemma4Processor: true,
  LlavaProcessor: false,
  PixtralProcessor: false,
  Lfm2VlProcessor: false,
};
/** Classes that can divide an image into tiles. */
const HAVE_TILES: ReadonlySet<string> = new Set(["Idefics3Processor", "SmolVLMProcessor"]);
/** The image placeholder, if neither the class nor its configuration gives one. */
const DEFAULT_PLACEHOLDER = "<image>";

/** The members of a processor that are used here, as transformers.js does not declare the fields of its classes. */
interface Processor {
  (...operands: readonly unknown[]): Promise<Record<string, unknown>>;
  readonly config: Json;
  readonly image_token?: unknown;
  readonly boi_token?: unknown;
}

type ProcessorClass =
  & (new (config: Json, components: Json, chatTemplate: null) => Processor)
  & {
    readonly name: string;
    readonly uses_processor_config: boolean;
    readonly image_token?: unknown;
  };

export class VisionProcessor {
  /** Placeholder of an image in the rendered chat template. */
  readonly placeholder: string;
  readonly #processor: Processor;
  readonly #takesTextFirst: boolean;
  readonly #hasTiles: boolean;
  readonly #RawImage: typeof RawImage;

  private constructor(
    processor: Processor,
    options: { name: string; placeholder: string; RawImage: typeof RawImage },
  ) {
    this.#processor = processor;
    this.placeholder = options.placeholder;
    this.#takesTextFirst = TAKES_TEXT_FIRST[options.name]!;
    this.#hasTiles = HAVE_TILES.has(options.name);
    this.#RawImage = options.RawImage;
  }

  /**
   * Loads the processor of a folder, without its tokenizer.
   *
   * @throws {StartupError} when the folder does not name a supported processor.
   */
  static async load(folderPath: string): Promise<VisionProcessor> {
    const folder = await openFolder(folderPath);
    const transformers = await loadTransformers({ modelsFolder: dirname(folderPath) });
    const images = await readImageSettings(folder);
    const { name, Class } = findClass(folder, { named: images["processor_class"], transformers });
    const config = Class.uses_processor_config
      ? await readJson(folder.path, "processor_config.json")
      : {};
    // Replaces the tokenizer: only the text is needed, as the whole prompt is tokenized later.
    const tokenizer = Object.assign((texts: unknown) => ({ texts }), {
      config: await readOptionalJson(folder, "tokenizer_config.json"),
    });
    // Gemma 4 keeps the image settings in `processor_config.json`, which does not name their class.
    const settings = name === "Gemma4Processor"
      ? { ...config["image_processor"] as Json, image_processor_type: "Gemma4ImageProcessor" }
      : images;
    const image_processor = makeImageProcessor(settings, transformers);
    const processor = new Class(config, { tokenizer, image_processor }, null);
    return new VisionProcessor(processor, {
      name,
      placeholder: writePlaceholder(processor, { name, Class }),
      RawImage: transformers.RawImage,
    });
  }

  /** @throws {Error} when the model's preprocessing refuses the image's shape. */
  async prepare(
    pixels: Pixels,
    { keepsWhole = false }: Pick<ImageToPrepare, "keepsWhole"> = {},
  ): Promise<PreparedMedium> {
    const image = toRawImage(this.#RawImage, compositeOnWhite(pixels)).rgb();
    const operands = this.#takesTextFirst ? [this.placeholder, image] : [image, this.placeholder];
    const given = keepsWhole && this.#hasTiles
      ? await this.#processor(...operands, { do_image_splitting: false })
      : await this.#processor(...operands);
    const { texts, ...rest } = given;
    return { text: (texts as string[])[0]!, tensors: toPlainTensors(rest) };
  }
}

/** Reads `preprocessor_config.json`, or `processor_config.json`, in which transformers 5 saves the same settings. */
async function readImageSettings(folder: ModelFolder): Promise<Json> {
  const { image_processor: images, processor_class } = folder.files.has("preprocessor_config.json")
    ? {}
    : await readOptionalJson(folder, "processor_config.json");
  if (isRecord(images)) return { ...images, processor_class };
  return await readJson(folder.path, "preprocessor_config.json");
}

function findClass(
  { path }: ModelFolder,
  { named, transformers }: { readonly named: unknown; readonly transformers: Transformers },
): { name: string; Class: ProcessorClass } {
  const name = String(named ?? "");
  const Class = (transformers as unknown as Record<string, ProcessorClass | undefined>)[name];
  if (Class !== undefined && name in TAKES_TEXT_FIRST) return { name, Class };
  throw new StartupError(
    `${path}/preprocessor_config.json: processor_class: want one of ${
      Object.keys(TAKES_TEXT_FIRST).join(", ")
    }; saw "${name}".`,
  );
}

/** @param settings the content of `preprocessor_config.json`. */
function makeImageProcessor(settings: Json, transformers: Transformers): unknown {
  const classes = transformers as unknown as Record<string, new (settings: Json) => unknown>;
  const type = settings["image_processor_type"] ?? settings["feature_extractor_type"];
  const Class = classes[String(type).replace(/Fast$/, "")] ?? classes["ImageProcessor"]!;
  return new Class(settings);
}

function writePlaceholder(
  processor: Processor,
  { name, Class }: { name: string; Class: ProcessorClass },
): string {
  // Gemma 3's template writes the token that begins an image, and Gemma 3's processor searches for that token.
  if (name === "Gemma3Processor") return String(processor.boi_token);
  const token = Class.image_token ?? processor.image_token ?? processor.config["image_token"];
  return typeof token === "string" ? token : DEFAULT_PLACEHOLDER;
}

/** A preprocessed image for a model's first graph. */
export interface NormalizedImage {
  /** f32, with shape `dims`. */
  readonly data: Float32Array<ArrayBuffer>;
  /** `[1, channels, height, width]`. */
  readonly dims: readonly number[];
  /** Width of the original image. */
  readonly width: number;
  readonly height: number;
}

/** An image processor of transformers.js. */
type Preprocessor = Awaited<ReturnType<Transformers["AutoImageProcessor"]["from_pretrained"]>>;

/** Maximum number of pixels after resizing. If only the shorter side is fixed, a narrow strip would become huge. */
const MAX_RESIZED_PIXELS = 32e6;

export class ImageProcessor {
  readonly #transformers: Transformers;
  readonly #processor: Preprocessor;

  private constructor(transformers: Transformers, processor: Preprocessor) {
    this.#transformers = transformers;
    this.#processor = processor;
  }

  /** Loads the image processor of a folder, from its `preprocessor_config.json`. */
  static async load(folder: string): Promise<ImageProcessor> {
    const transformers = await loadTransformers({ modelsFolder: dirname(folder) });
    const processor = await transformers.AutoImageProcessor.from_pretrained(basename(folder));
    return new ImageProcessor(transformers, processor);
  }

  /**
   * Preprocesses an image.
   *
   * @throws {HearthError} `invalid_media` when resizing would make a narrow image too large.
   * @throws {Error} when the processor refuses the image's shape.
   */
  async normalize(decoded: Pixels): Promise<NormalizedImage> {
    const { width, height } = decoded;
    this.#checkProportions(width, height);
    const image = toRawImage(this.#transformers.RawImage, compositeOnWhite(decoded));
    const { pixel_values: { data, dims } } = await this.#processor(image);
    return { data: data as Float32Array<ArrayBuffer>, dims, width, height };
  }

  #checkProportions(width: number, height: number): void {
    const processor = this.#processor;
    if (!processor.do_resize) return;
    const image = { size: [width, height] } as unknown as Parameters<
      Preprocessor["get_resize_output_image_size"]
    >[0];
    const [resizedWidth, resizedHeight] = processor.get_resize_output_image_size(
      image,
      processor.size,
    );
    if (resizedWidth * resizedHeight <= MAX_RESIZED_PIXELS) return;
    throw new HearthError(
      "invalid_media",
      `The image has ${width} × ${height} pixels. It is too narrow for this model, which would enlarge it to ` +
        `${resizedWidth} × ${resizedHeight}. Send only the part of it that matters.`,
    );
  }
}
