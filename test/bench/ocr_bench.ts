/**
 * Compares reading images with transformers.js: the same folder, weights, device and images, alternating in one process
 * per device, medians of several rounds. The model has TrOCR small's decoder and a short encoder, with random weights;
 * each answer has 40 tokens. Then PP-OCR reads printed pages.
 *
 *     deno task bench ocr
 *
 * @module
 */
import { benchEachDevice } from "./each_device.ts";
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openDevice } from "../../src/gpu/device.ts";
import { decodeImage } from "../../src/media/image.ts";
import { toRawImage } from "../../src/device/ort/hook.ts";
import { loadWithModels } from "../fixtures/engine/transformers_sessions.ts";
import { peerSessions } from "./peer_sessions.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { openModel } from "../fixtures/engine/model.ts";
import { ocrTokenizer } from "../fixtures/models/ocr_tokenizer.ts";
import { makeTinyOcr, ocrImage } from "../fixtures/models/tiny_ocr.ts";
import { decoder, imageEncoder } from "../fixtures/models/tiny_ocr_graphs.ts";
import { median, printTable, time } from "./report.ts";

const ROUNDS = 3;
const NUM_TOKENS = 40;
const NUM_TOGETHER = 8;
const SIZE = { width: 384, height: 384 };
const DECODER = { width: 256, heads: 8, layers: 6, positions: 512 };
const NUM_TAGS = 8000;
const PAGES = ["en.jpg", "japan.jpg", "text_det.jpg"];

type Read = (images: readonly Uint8Array<ArrayBuffer>[]) => Promise<string[]>;

/** Writes a folder in the layout of `trocr`, but larger. */
async function makeFolder() {
  const tiny = await makeTinyOcr("trocr");
  const tokenizer = ocrTokenizer(Array.from({ length: NUM_TAGS }, (_, tag) => `<t${tag}>`));
  const write = (name: string, json: unknown) =>
    Deno.writeTextFile(join(tiny.folder, name), JSON.stringify(json));
  const read = async (name: string) => JSON.parse(await Deno.readTextFile(join(tiny.folder, name)));
  const config = await read("config.json");
  await write("config.json", {
    ...config,
    decoder: {
      ...config.decoder,
      d_model: DECODER.width,
      decoder_attention_heads: DECODER.heads,
      decoder_layers: DECODER.layers,
      max_position_embeddings: DECODER.positions,
      vocab_size: tokenizer.size,
    },
  });
  // Makes all answers equally long.
  await write("generation_config.json", {
    ...await read("generation_config.json"),
    suppress_tokens: [2],
  });
  await write("preprocessor_config.json", {
    ...await read("preprocessor_config.json"),
    size: SIZE,
  });
  await write("tokenizer.json", tokenizer.json);
  const graphs = {
    encoder_model: imageEncoder("last_hidden_state", 3, { ...DECODER, layers: 2 }),
    decoder_model_merged: decoder(tokenizer.size, { seed: 4, takesEmbeddings: false, ...DECODER }),
  };
  for (const [name, bytes] of Object.entries(graphs)) {
    await Deno.writeFile(join(tiny.folder, `onnx/${name}.onnx`), bytes);
  }
  return tiny;
}

async function makeTheirs(folder: string, device: GPUDevice | undefined): Promise<Read> {
  const transformers = await loadWithModels({
    openModel: peerSessions(device),
    modelsFolder: dirname(folder),
  });
  const name = basename(folder);
  const processor = await transformers.AutoProcessor.from_pretrained(name);
  const tokenizer = await transformers.AutoTokenizer.from_pretrained(name);
  const model = await transformers.VisionEncoderDecoderModel.from_pretrained(name, {
    dtype: "fp32",
    device: "auto",
  });
  return async (files) => {
    const images = await Promise.all(
      files.map(async (file) => toRawImage(transformers.RawImage, await decodeImage(file))),
    );
    const { pixel_values } = await processor(images);
    const output = await model.generate({ inputs: pixel_values, max_new_tokens: NUM_TOKENS });
    return tokenizer.batch_decode(output as Parameters<typeof tokenizer.batch_decode>[0], {
      skip_special_tokens: true,
    });
  };
}

async function makeOurs(folder: string, backend: Backend): Promise<Read> {
  const model = await openModel(folder, { backend });
  return async (images) => {
    const answers = await Promise.all(
      images.map((file) => chat(model, [imageMessage(file.slice())], { maxTokens: NUM_TOKENS })),
    );
    return answers.map(({ texts }) => texts[0]!);
  };
}

async function compare(
  label: string,
  contenders: { readonly ours: Read; readonly theirs: Read },
  images: readonly Uint8Array<ArrayBuffer>[],
): Promise<string[]> {
  const times = { ours: [] as number[], theirs: [] as number[] };
  const texts = { ours: [""], theirs: [""] };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const name of ["ours", "theirs"] as const) {
      const ms = await time(async () => void (texts[name] = await contenders[name](images)));
      // The first round warms up.
      if (round > 0) times[name].push(ms);
    }
  }
  const [ours, theirs] = [median(times.ours), median(times.theirs)];
  const same = texts.ours.join() === texts.theirs.join() ? "" : ", other words";
  const ratio = `${(theirs / ours).toFixed(1)}×`;
  return [`${label}, ms${same}`, ours.toFixed(0), theirs.toFixed(0), ratio];
}

async function benchPages(backend: Backend, names: readonly string[]): Promise<void> {
  const folder = findModelFolder("ppocr-v2-mobile");
  const images = fileURLToPath(new URL("../../../shared/testdata/ocr", import.meta.url));
  if (folder === undefined || !existsSync(images)) return;
  await using model = await openModel(folder, { backend });
  const rows: string[][] = [];
  for (const name of names) {
    const file = await Deno.readFile(join(images, name));
    const { width, height } = await decodeImage(file.slice());
    let text = "";
    const read = async () => {
      text = (await chat(model, [imageMessage(file.slice())])).texts[0]!;
    };
    await read();
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) times.push(await time(read));
    rows.push([
      `${name}, ${width} × ${height}`,
      `${text.split("\n").length}`,
      `${text.length}`,
      median(times).toFixed(0),
    ]);
  }
  printTable([`PP-OCR, ${backend.adapter}`, "rows", "characters", "ms"], rows);
}

async function benchDevice(name: string): Promise<void> {
  const gpu = name === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
  const backend = gpu ? await WebGpuBackend.create(gpu) : new CpuBackend();
  const tiny = await makeFolder();
  const ours = await makeOurs(tiny.folder, backend);
  const theirs = await makeTheirs(tiny.folder, gpu?.device);
  const images = await Promise.all(
    Array.from({ length: NUM_TOGETHER }, (_, number) => ocrImage(number, SIZE)),
  );
  const inTurn: Read = async (files) => {
    const texts: string[] = [];
    for (const file of files) texts.push(...await theirs([file]));
    return texts;
  };
  // A software adapter would take an hour for all images.
  const some = gpu?.isFallbackAdapter === true ? images.slice(0, 3) : images;
  const atOnce = `${some.length} requests at once, theirs`;
  const rows = [
    await compare("one image", { ours, theirs }, images.slice(0, 1)),
    await compare(`${atOnce} in turn`, { ours, theirs: inTurn }, some),
  ];
  if (some === images) {
    rows.push(await compare(`${atOnce} as one batch`, { ours, theirs }, images));
  }
  printTable([backend.adapter, "Hearth", "transformers.js", "ratio"], rows);
  await tiny[Symbol.asyncDispose]();
  await benchPages(backend, some === images ? PAGES : PAGES.slice(0, 1));
}

await benchEachDevice(import.meta.filename!, benchDevice);
