/**
 * TrOCR, Donut and similar models: an encoder for the image, and a decoder that begins with a token or a task.
 *
 * TrOCR takes no instruction: a request's text is ignored. Donut takes tasks, spelled as tags (`<s_cord-v2>`): a text
 * that begins with a tag is the task, any other text a question, for models trained on questions. Its answers keep
 * their tags.
 *
 * @module
 */
import { HearthError } from "../../errors.ts";
import {
  decodeWithTags,
  type FamilyOptions,
  type OcrFamily,
  type OcrPrompt,
  startTokenOf,
} from "./ocr_family.ts";

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

/** @throws {StartupError} when the configuration has no decoder start token. */
export function openVisionEncoderDecoder(options: FamilyOptions): OcrFamily {
  const { config, tokenizer } = options;
  const startToken = startTokenOf(config);
  const hasTags = TAG.test(tokenizer.tokenTexts.of(startToken).token) ||
    tokenizer.idOf(DONUT_SEPARATOR) !== undefined;
  const answersQuestions = tokenizer.idOf(QUESTION.begin) !== undefined;
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
      endToken: tokenizer.idOf(answerEnd),
    };
  };
  return {
    textOf: hasTags ? decodeWithTags(options) : (ids) => tokenizer.decode(ids),
    readPrompt: (text) => {
      const tag = TAG.exec(text)?.[0];
      if (tag !== undefined && tokenizer.idOf(tag) !== undefined) {
        return { text: [], prompt: tokenizer.encode(text) };
      }
      return answersQuestions ? ask(text) : { text: [], prompt: [startToken] };
    },
  };
}
