/**
 * The first runs of a picture-reading model, before anybody waits for it: they compile the device's programs, show a
 * model that loads but cannot run, and tell sizes that no configuration does.
 *
 * @module
 */
import { encodePng } from "../../media/png.ts";
import { disposeTensors, Tensor } from "../../onnx/ort.ts";
import { CutDecoder } from "../encoder_decoder/cut_decoder.ts";
import type { MergedDecoder } from "../encoder_decoder/merged_decoder.ts";
import type { OcrFamily } from "./ocr_family.ts";
import { type PictureEncoder, toTensor } from "./picture_encoder.ts";
import type { PictureDesk } from "./picture_desk.ts";

/** A picture and text that were encoded. */
export interface Probe {
  readonly pixels: Tensor;
  readonly text: readonly number[];
  /** The first token of the prompt. */
  readonly token: number;
  /** Places of a picture in the encoder's output. */
  readonly numPlaces: number;
  /** Whether pictures of all sizes come to as many places, and no text adds to them. */
  readonly hasOneSize: boolean;
}

const WHITE = 255;

/** Encodes a blank picture. */
export async function probeEncoder(
  encoder: PictureEncoder,
  { family, desk }: { readonly family: OcrFamily; readonly desk: PictureDesk },
): Promise<Probe> {
  const { text, prompt } = family.readPrompt("hello");
  const pixels = await prepareBlank(desk, 64, 64);
  const wide = await prepareBlank(desk, 96, 64);
  const hidden = await encoder.encode({ pixels, texts: [text] });
  const numPlaces = hidden.dims[1]! - text.length;
  hidden.dispose();
  const hasOneSize = !encoder.readsText && pixels.dims.join() === wide.dims.join();
  return { pixels, text, token: prompt[0]!, numPlaces, hasOneSize };
}

/** Runs two tokens. @returns the size of the vocabulary. */
export async function probeDecoder(
  decoder: CutDecoder | MergedDecoder,
  { encoder, probe }: { readonly encoder: PictureEncoder; readonly probe: Probe },
): Promise<number> {
  const { pixels, text, token } = probe;
  const hidden = await encoder.encode({ pixels, texts: [text] });
  if (decoder instanceof CutDecoder) {
    await decoder.keep(hidden, [0]);
    const logits = await decoder.step([{ slot: 0, tokens: [token, token], position: 0 }]);
    return logits.dims.at(-1)!;
  }
  const state = await decoder.begin(hidden);
  const embed = async () =>
    encoder.readsText ? await encoder.embed([[token]]) : toTensor([[token]]);
  const first = await decoder.step(state, await embed());
  const second = await decoder.step(first.state, await embed());
  for (const step of [first, second]) {
    step.logits.dispose();
    disposeTensors(step.state.self);
  }
  disposeTensors(state.cross);
  return first.logits.dims.at(-1)!;
}

async function prepareBlank(desk: PictureDesk, width: number, height: number): Promise<Tensor> {
  const pixels = new Uint8Array(width * height * 3).fill(WHITE);
  const bytes = encodePng({ width, height, channels: 3, data: pixels });
  const part = { type: "image", bytes, param: "warm-up" } as const;
  const { data, dims } = await desk.prepare(part, new AbortController().signal);
  return new Tensor("float32", data, dims);
}
