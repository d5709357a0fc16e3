/**
 * TrOCR, Donut and their like: an encoder for the image, and a decoder that begins with a token, or with a task.
 *
 * TrOCR takes no instruction: a request's text is passed over. Donut takes tasks, spelled as tags (`<s_cord-v2>`): a
 * text that begins with a tag is the task, any other text a question, to models made for questions. Its answers keep
 * the tags that tell what is what.
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
/** Stands between the items of a list; all Donut models have it. */
const DONUT_SEPARATOR = "<sep/>";
/** The tags of models that answer questions. */
const QUESTION = {
  task: "<s_docvqa>",
  begin: "<s_question>",
  end: "</s_question>",
  answer: "<s_answer>",
  answerEnd: "</s_answer>",
} as const;

/** @throws {StartupError} when the configuration has no first token. */
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
