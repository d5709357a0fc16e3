/**
 * A small request for each built-in model.
 *
 * @module
 */
import { encode } from "fast-png";

/** A request. */
export interface SmallRequest {
  /** Id of the model that answers. */
  readonly model: string;
  readonly path: string;
  readonly body: BodyInit;
  readonly headers: Readonly<Record<string, string>>;
}

/** The built-in models, by kind. */
export const MODELS = {
  text: "hearth-demo-chat",
  embedding: "hearth-demo-embed",
  rerank: "hearth-demo-rerank",
  asr: "hearth-demo-asr",
  tts: "hearth-demo-tts",
  vision: "hearth-demo-vision",
  ocr: "hearth-demo-ocr",
  matting: "hearth-demo-matting",
} as const;

/** A kind that has a built-in model. */
export type LoadKind = keyof typeof MODELS;

function imageUrl(index: number): string {
  const image = encode({
    width: 64,
    height: 64,
    channels: 3,
    data: Uint8Array.from({ length: 64 * 64 * 3 }, (_, at) => (at + index) * 7 % 256),
  });
  return `data:image/png;base64,${image.toBase64()}`;
}

/** Half a second of a tone, 16 kHz. */
function wav(index: number): Uint8Array<ArrayBuffer> {
  const numSamples = 8_000;
  const view = new DataView(new ArrayBuffer(44 + 2 * numSamples));
  const text = (at: number, value: string) =>
    [...value].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * numSamples, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, 16_000, true);
  view.setUint32(28, 32_000, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * numSamples, true);
  for (let n = 0; n < numSamples; n++) {
    view.setInt16(44 + 2 * n, 8_000 * Math.sin(n / (8 + index / 1000)), true);
  }
  return new Uint8Array(view.buffer);
}

function json(kind: LoadKind, path: string, body: Record<string, unknown>): SmallRequest {
  const model = MODELS[kind];
  return {
    model,
    path,
    body: JSON.stringify({ model, ...body }),
    headers: { "content-type": "application/json" },
  };
}

function chat(kind: LoadKind, content: unknown): SmallRequest {
  return json(kind, "/v1/chat/completions", {
    messages: [{ role: "user", content }],
    max_tokens: 4,
    temperature: 0,
  });
}

/** @param index requests with different indices have different media: none is answered from a cache. */
export function smallRequest(kind: LoadKind, index = 0): SmallRequest {
  const seen = [{ type: "image_url", image_url: { url: imageUrl(index) } }];
  switch (kind) {
    case "text":
      return chat(kind, "What is the capital of France?");
    case "vision":
    case "ocr":
      return chat(kind, [...seen, { type: "text", text: "What is this?" }]);
    case "embedding":
      return json(kind, "/v1/embeddings", { input: "A small text." });
    case "rerank":
      return json(kind, "/v1/rerank", {
        query: "capital",
        documents: ["Lisbon is one.", "Eggs boil."],
      });
    case "tts":
      return json(kind, "/v1/audio/speech", { input: "Hi.", response_format: "wav" });
    case "matting":
      return json(kind, "/v1/images/remove_background", {
        messages: [{ role: "user", content: seen }],
      });
    case "asr":
      return chat(kind, [{
        type: "input_audio",
        input_audio: { data: wav(index).toBase64(), format: "wav" },
      }]);
  }
}
