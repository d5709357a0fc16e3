/**
 * The differences between families of image-to-text models: prompts and decoding of TrOCR, Donut and Florence-2.
 *
 * @module
 */
import type { Transformers } from "../../device/ort/hook.ts";
import { type Json, requireNumber } from "../../hub/model_folder.ts";
import type { Size } from "../folder/preprocessor_config.ts";
import type { TextTokenizer } from "../text/tokenizer.ts";
import { HearthError } from "../../base/errors.ts";

/** The prompt for a request's text. */
export interface OcrPrompt {
  /** Token ids that the encoder reads after the image. */
  readonly text: readonly number[];
  readonly prompt: readonly number[];
  /** One more token that ends the answer. */
  readonly endToken?: number | undefined;
  /** Turns the model's complete text into the answer; the text itself if absent. */
  readonly finish?: ((text: string, image: Size) => string) | undefined;
}

export interface OcrFamily {
  /** Tokens that are left out of the answer's text. */
  readonly hidden: ReadonlySet<number>;
  /** @throws {HearthError} `invalid_value` when the model cannot take this text. */
  readPrompt(text: string): OcrPrompt;
}

export interface OcrFamilyOptions {
  /** The folder's configuration, merged as in `generate()`. */
  readonly config: Json;
  readonly tokenizer: TextTokenizer;
  /** The folder's `preprocessor_config.json`. */
  readonly preprocessor: Json;
  readonly transformers: Transformers;
}

/**
 * Reads the decoder start token.
 *
 * @throws {StartupError} when the configuration has none.
 */
function readStartToken(config: Json): number {
  return requireNumber(config, "decoder_start_token_id", "bos_token_id");
}

/** Start, end and padding tokens. Other special tokens are tags, which are shown. */
function tokensBesideTags({ config }: OcrFamilyOptions): ReadonlySet<number> {
  const names = ["bos_token_id", "eos_token_id", "pad_token_id"];
  return new Set(names.flatMap((name) => config[name] ?? []) as number[]);
}

const TAG = /^<s_[^>]*>/;
/** The separator of list items in all Donut models. */
const DONUT_SEPARATOR = "<sep/>";
/** The tags of models that answer questions. */
const QUESTION = {
  task: "<s_docvqa>",
  begin: "<s_question>",
  end: "</s_question>",
  answer: "<s_answer>",
  answerEnd: "</s_answer>",
} as const;

/**
 * TrOCR, Donut and similar models: an encoder for the image, and a decoder that begins with a token or a task.
 *
 * TrOCR takes no instruction: a request's text is ignored. Donut takes tasks, spelled as tags (`<s_cord-v2>`): a text
 * that begins with a tag is the task, any other text a question, for models trained on questions. Its answers keep
 * their tags.
 *
 * @throws {StartupError} when the configuration has no decoder start token.
 */
export function openVisionEncoderDecoder(options: OcrFamilyOptions): OcrFamily {
  const { config, tokenizer } = options;
  const startToken = readStartToken(config);
  const hasTags = TAG.test(tokenizer.tokenTexts.of(startToken).token) ||
    tokenizer.tokenToId(DONUT_SEPARATOR) !== undefined;
  const answersQuestions = tokenizer.tokenToId(QUESTION.begin) !== undefined;
  const ask = (question: string): OcrPrompt => {
    if (question === "") {
      throw new HearthError(
        "invalid_value",
        "messages: this model answers questions about an image; want a text part with a question, saw none.",
        { param: "messages" },
      );
    }
    const { task, begin, end, answer, answerEnd } = QUESTION;
    return {
      text: [],
      prompt: tokenizer.encode(`${task}${begin}${question}${end}${answer}`),
      endToken: tokenizer.tokenToId(answerEnd),
    };
  };
  return {
    hidden: hasTags ? tokensBesideTags(options) : tokenizer.hiddenBeside([]),
    readPrompt: (text) => {
      const tag = TAG.exec(text)?.[0];
      if (tag !== undefined && tokenizer.tokenToId(tag) !== undefined) {
        return { text: [], prompt: tokenizer.encode(text) };
      }
      return answersQuestions ? ask(text) : { text: [], prompt: [startToken] };
    },
  };
}

const DEFAULT_TASK = "<OCR>";
/** Kinds of answers with locations that transformers.js can parse. */
const WITH_LOCATIONS = new Set(["description_with_bboxes", "bboxes", "phrase_grounding", "ocr"]);

/**
 * Florence-2: tasks are spelled `<OCR>`, `<CAPTION>`, `<OCR_WITH_REGION>` …, some followed by a text. A request without
 * a text is an `<OCR>`. Tasks with locations are answered in JSON, in pixels of the image.
 *
 * @throws {StartupError} when the configuration has no decoder start token.
 */
export function openFlorence(options: OcrFamilyOptions): OcrFamily {
  const { config, tokenizer, preprocessor, transformers } = options;
  const startToken = readStartToken(config);
  const processor = new transformers.Florence2Processor(
    {},
    // Only the processor's configuration is used here: images are preprocessed elsewhere.
    { image_processor: { config: preprocessor } },
    null,
  );
  const tasksWithLocations = [...processor.tasks_answer_post_processing_type]
    .flatMap(([task, kind]) => WITH_LOCATIONS.has(kind) ? [task] : []);
  return {
    hidden: tokensBesideTags(options),
    readPrompt: (text) => {
      const asked = text === "" ? DEFAULT_TASK : text;
      const task = tasksWithLocations.find((each) => asked.startsWith(each));
      return {
        text: tokenizer.encodeWhole(processor.construct_prompts(asked)[0]!),
        prompt: [startToken],
        finish: task === undefined ? undefined : (answer, { width, height }) => {
          const placed = processor.post_process_generation(answer, task, [width, height]);
          return JSON.stringify(placed[task]);
        },
      };
    },
  };
}
