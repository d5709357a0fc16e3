/**
 * Florence-2: tasks are spelled `<OCR>`, `<CAPTION>`, `<OCR_WITH_REGION>` …, some with a text behind them. A request
 * without a text is an `<OCR>`. Tasks that tell places are answered in JSON, with pixels of the image.
 *
 * @module
 */
import { decodeWithTags, type FamilyOptions, type OcrFamily, startTokenOf } from "./ocr_family.ts";

const DEFAULT_TASK = "<OCR>";
/** Kinds of answers with places that transformers.js reads. */
const WITH_PLACES = new Set(["description_with_bboxes", "bboxes", "phrase_grounding", "ocr"]);

/** @throws {StartupError} when the configuration has no first token. */
export function openFlorence(options: FamilyOptions): OcrFamily {
  const { config, tokenizer, preprocessor, transformers } = options;
  const startToken = startTokenOf(config);
  const processor = new transformers.Florence2Processor(
    {},
    // Only its configuration is looked at: images are prepared elsewhere.
    { image_processor: { config: preprocessor } },
    null,
  );
  const tasksWithLocations = [...processor.tasks_answer_post_processing_type]
    .flatMap(([task, kind]) => WITH_PLACES.has(kind) ? [task] : []);
  return {
    textOf: decodeWithTags(options),
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
