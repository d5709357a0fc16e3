/**
 * For each built-in model a small request that it answers.
 *
 * @module
 */
import { encode } from "fast-png";

/** What is sent. */
export interface SmallRequest {
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

/** A kind that there is a built-in model of. */
export type LoadKind = keyof typeof MODELS;

const IMAGE = encode({
  width: 64,
  height: 64,
  channels: 3,
  data: Uint8Array.from({ length: 64 * 64 * 3 }, (_, at) => at * 7 % 256),
});

function imageUrl(): string {
  return `data:image/png;base64,${IMAGE.toBase64()}`;
}

/** Half a second of a tone, 16 kHz. */
function wav(): Uint8Array<ArrayBuffer> {
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
    view.setInt16(44 + 2 * n, 8_000 * Math.sin(n / 8), true);
  }
  return new Uint8Array(view.buffer);
}

function json(path: string, body: unknown): SmallRequest {
  return { path, body: JSON.stringify(body), headers: { "content-type": "application/json" } };
}

function chat(kind: LoadKind, content: unknown): SmallRequest {
  return json("/v1/chat/completions", {
    model: MODELS[kind],
    messages: [{ role: "user", content }],
    max_tokens: 4,
    temperature: 0,
  });
}

/** See the module. */
export function smallRequest(kind: LoadKind): SmallRequest {
  const seen = [{ type: "image_url", image_url: { url: imageUrl() } }];
  switch (kind) {
    case "text":
      return chat(kind, "What is the capital of France?");
    case "vision":
    case "ocr":
      return chat(kind, [...seen, { type: "text", text: "What is this?" }]);
    case "embedding":
      return json("/v1/embeddings", { input: "A small text." });
    case "rerank":
      return json("/v1/rerank", { query: "capital", documents: ["Lisbon is one.", "Eggs boil."] });
    case "tts":
      return json("/v1/audio/speech", { model: MODELS.tts, input: "Hi.", response_format: "wav" });
    case "matting":
      return json("/v1/images/remove_background", {
        model: MODELS.matting,
        messages: [{ role: "user", content: seen }],
      });
    case "asr":
      return chat(kind, [{
        type: "input_audio",
        input_audio: { data: wav().toBase64(), format: "wav" },
      }]);
  }
}
