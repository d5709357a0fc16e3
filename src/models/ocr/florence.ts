/**
 * Florence-2: tasks are spelled `<OCR>`, `<CAPTION>`, `<OCR_WITH_REGION>` …, some followed by a text. A request without
 * a text is an `<OCR>`. Tasks with locations are answered in JSON, in pixels of the image.
 *
 * @module
 */
import { decodeWithTags, type FamilyOptions, type OcrFamily, startTokenOf } from "./ocr_family.ts";

const DEFAULT_TASK = "<OCR>";
/** Kinds of answers with locations that transformers.js parses. */
const WITH_PLACES = new Set(["description_with_bboxes", "bboxes", "phrase_grounding", "ocr"]);

/** @throws {StartupError} when the configuration has no decoder start token. */
export function openFlorence(options: FamilyOptions): OcrFamily {
  const { config, tokenizer, preprocessor, transformers } = options;
  const startToken = startTokenOf(config);
  const processor = new transformers.Florence2Processor(
    {},
    // Only its configuration is used: images are preprocessed elsewhere.
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
