import assert from "node:assert/strict";
import { ChatTemplate } from "../../../../src/models/text/chat/chat_template.ts";
import {
  computeMropePositions,
  VisionPrompt,
} from "../../../../src/models/vision/vision_prompt.ts";
import { Tokenizer } from "../../../../src/tokenizer/tokenizer.ts";

function getPositions(...args: Parameters<typeof computeMropePositions>) {
  const { prompt, offset } = computeMropePositions(...args);
  return { prompt: prompt.map((section) => [...section]), offset };
}

Deno.test("computeMropePositions() counts text equally in all sections", () => {
  const text = [0, 1, 2];
  assert.deepEqual(getPositions(3, []), { prompt: [text, text, text], offset: 0 });
});

Deno.test("computeMropePositions() continues after the longer side of each image", () => {
  const spans = [
    { start: 1, grid: [1, 2, 3] },
    { start: 8, grid: [1, 2, 1] },
  ] as const;
  assert.deepEqual(getPositions(12, spans), {
    prompt: [
      [0, 1, 1, 1, 1, 1, 1, 4, 5, 5, 7, 8],
      [0, 1, 1, 1, 2, 2, 2, 4, 5, 6, 7, 8],
      [0, 1, 2, 3, 1, 2, 3, 4, 5, 5, 7, 8],
    ],
    offset: -3,
  });
});

Deno.test("computeMropePositions() gives the frames of a video their times", () => {
  assert.deepEqual(getPositions(5, [{ start: 0, grid: [2, 1, 2] }]), {
    prompt: [[0, 0, 1, 1, 2], [0, 0, 0, 0, 2], [0, 1, 0, 1, 2]],
    offset: -2,
  });
});

Deno.test("VisionPrompt counts an image's tokens as they are written, even if the tokenizer normalizes them", () => {
  const tokenizer = new Tokenizer({
    added_tokens: [{ id: 3, content: "<Image>", normalized: true, special: false }],
    normalizer: { type: "Lowercase" },
    model: { type: "WordPiece", unk_token: "?", vocab: { "?": 0, a: 1, b: 2 } },
  });
  const template = new ChatTemplate(
    new Map([[
      "default",
      "{% for part in messages[0].content %}" +
      "{{ part.text if part.type == 'text' else '<Image>' }}{% endfor %}",
    ]]),
  );
  const prompt = new VisionPrompt({
    tokenizer: {
      template,
      encode: (text) => tokenizer.encode(text),
      tokenToId: (token) => tokenizer.tokenToId(token),
      idToToken: (id) => tokenizer.idToToken(id),
      addedTokens: tokenizer.addedTokens,
    },
    media: { image: { placeholder: "<Image>" } },
  });
  const text = "<Image><Image>";
  assert.equal(prompt.countRows("image", text), 2);
});
