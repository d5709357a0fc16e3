/** PP-OCR's graphs without a `config.json`, in their published layouts. */
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { openAnyFolder } from "../../src/hub/model_folder.ts";
import { readLineOcrConfig } from "../../src/models/ocr/line_ocr.ts";
import { readPaddleConfig } from "../../src/models/ocr/paddle_config.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { openModel } from "../fixtures/engine/model.ts";
import {
  detectorYaml,
  type FolderFiles,
  recogniserYaml,
  withFolder,
  withMetadata,
} from "../fixtures/models/paddle_folder.ts";

const DEMO = findModelFolder("hearth-demo-ocr")!;
const PP_OCR = findModelFolder("ppocr-v2-mobile");

function readFile(folder: string, name: string): URL {
  return pathToFileURL(`${folder}/${name}`);
}

async function readLines(folder: string, name: string): Promise<string[]> {
  return (await Deno.readTextFile(readFile(folder, name))).trimEnd().split("\n");
}

async function read(folder: string, images: readonly string[]): Promise<string[]> {
  await using model = await openModel(folder);
  const answers = await Promise.all(images.map(async (image) => {
    return await chat(model, [imageMessage(await Deno.readFile(image))]);
  }));
  return answers.map(({ texts }) => texts[0]!);
}

/** The built-in model as PaddleOCR would publish it. */
async function demoFiles(): Promise<FolderFiles> {
  const { detection } = await readLineOcrConfig(await openAnyFolder(DEMO));
  const { threshold, boxThreshold, unclipRatio, maxSide } = detection;
  const half = [0.5, 0.5, 0.5];
  const settings = { mode: "RGB", mean: half, std: half, longest: maxSide } as const;
  return {
    "PP-OCRv5_mobile_det_onnx/inference.onnx": readFile(DEMO, "onnx/det.onnx"),
    "PP-OCRv5_mobile_det_onnx/inference.yml": detectorYaml(
      { ...settings, threshold, boxThreshold, unclipRatio },
    ),
    "en_PP-OCRv5_mobile_rec_onnx/inference.onnx": readFile(DEMO, "onnx/rec_en.onnx"),
    "en_PP-OCRv5_mobile_rec_onnx/inference.yml": recogniserYaml(
      32,
      await readLines(DEMO, "dict/en.txt"),
    ).replace("BGR", "RGB").replace("320]", "64]"),
  };
}

Deno.test("a folder in PaddleOCR's layout reads the same as one with a hand-written config.json", async () => {
  await withFolder(await demoFiles(), async (path) => {
    const folder = await openAnyFolder(path);
    const told = await readPaddleConfig(folder);
    const described = await readLineOcrConfig(await openAnyFolder(DEMO));
    const [{ file, ...recogniser }] = told.recognition as [typeof told.recognition[0]];
    assert.equal(file, "en_PP-OCRv5_mobile_rec_onnx/inference.onnx");
    assert.deepEqual({ ...described.recognition[0], file: undefined }, {
      ...recogniser,
      file: undefined,
    });
    assert.deepEqual({ ...told.detection, file: "" }, { ...described.detection, file: "" });
    const golden = JSON.parse(await Deno.readTextFile(readFile(DEMO, "golden.json"))).cases as {
      image: string;
      text: string;
    }[];
    const cases = golden.slice(0, 4);
    assert.deepEqual(
      await read(path, cases.map(({ image }) => `${DEMO}/${image}`)),
      cases.map(({ text }) => text),
    );
  });
});

/** The same graphs in one folder; `extra` contains the recogniser's characters. */
function rapidFiles(extra: FolderFiles): FolderFiles {
  return {
    "ch_PP-OCRv4_det_infer.onnx": readFile(DEMO, "onnx/det.onnx"),
    "en_PP-OCRv4_rec_infer.onnx": readFile(DEMO, "onnx/rec_en.onnx"),
    ...extra,
  };
}

Deno.test("readPaddleConfig() finds the dictionary in the recogniser's metadata, in a file next to the recogniser, and by language", async () => {
  const lines = await readLines(DEMO, "dict/en.txt");
  const wanted = ["", ...lines, " "];
  const text = lines.join("\n");
  const graph = await Deno.readFile(readFile(DEMO, "onnx/rec_en.onnx"));
  const variants: FolderFiles[] = [
    { "en_PP-OCRv4_rec_infer.onnx": withMetadata(graph, "character", text) },
    { "keys.txt": text, "README.txt": "Read me.", "requirements.txt": "onnx" },
    { "en_PP-OCRv4_rec_infer.txt": text, "korean_dict.txt": "가\n나" },
    { "en_dict.txt": text, "ppocr_keys_v1.txt": "一\n二" },
    { "en_PP-OCRv4_rec_infer.yml": recogniserYaml(32, lines) },
  ];
  for (const files of variants) {
    await withFolder(rapidFiles(files), async (path) => {
      const { recognition: [recogniser] } = await readPaddleConfig(await openAnyFolder(path));
      assert.deepEqual(recogniser!.characters, wanted, Object.keys(files).join());
      assert.deepEqual([recogniser!.name, recogniser!.height], ["en", 32]);
    });
  }
});

Deno.test("without a dictionary, the error names the recogniser and the accepted files", async () => {
  const wanted =
    /en_PP-OCRv4_rec_infer\.onnx: want one dictionary .* in its metadata .* inference\.yml or in a \.txt file; /;
  for (const files of [{}, { "a.txt": "a\nb", "b.txt": "c\nd" }]) {
    await withFolder(rapidFiles(files), async (path) => {
      await assert.rejects(openModel(path), { name: "StartupError", message: wanted });
    });
  }
});

Deno.test("an invalid inference.yml is named without quoting its content", async () => {
  const SECRET = "root:x:0:0:hunter2";
  const texts = [
    "- : :\n\t{",
    `thresh: [${SECRET}`,
    `- ${SECRET}\n  bad: : "${SECRET}"`,
    `a: *${SECRET}`,
    `${SECRET}\n${SECRET}: [\n`,
    `thresh: ${SECRET}`,
    `thresh: {a: [${SECRET}]}`,
  ];
  for (const text of texts) {
    await withFolder(rapidFiles({ "ch_PP-OCRv4_det_infer.yml": text }), async (path) => {
      const error = await openModel(path).then(() => undefined, (error) => error);
      assert.equal(error?.name, "StartupError", text);
      assert.match(
        error.message,
        /_infer\.yml.*(not valid YAML|want a number)/,
      );
      assert.doesNotMatch(error.message, /hunter2/);
    });
  }
});

Deno.test({
  name:
    "PP-OCR's own graphs with RapidOCR's file names read the same as with a hand-written configuration" +
    unlessThere(PP_OCR !== undefined, "models/ppocr-v2-mobile", "PP-OCR's own weights"),
  ignore: PP_OCR === undefined,
  fn: async () => {
    const graph = await Deno.readFile(readFile(PP_OCR!, "onnx/rec_en.onnx"));
    const dictionary = await Deno.readTextFile(readFile(PP_OCR!, "dict/en.txt"));
    const common: FolderFiles = {
      "ch_PP-OCRv3_det_infer.onnx": readFile(PP_OCR!, "onnx/det_v3.onnx"),
      "ch_ppocr_mobile_v2.0_cls_infer.onnx": readFile(PP_OCR!, "onnx/cls.onnx"),
    };
    const name = "en_number_mobile_v2.0_rec_infer.onnx";
    const variants: FolderFiles[] = [
      { ...common, [name]: graph, "en_dict.txt": dictionary },
      { ...common, [name]: withMetadata(graph, "character", dictionary) },
    ];
    const images = ["en_rec.jpg", "en.jpg"]
      .map((image) => `${PP_OCR}/../../testdata/ocr/${image}`);
    const described = await readLineOcrConfig(await openAnyFolder(PP_OCR!));
    const wanted = await read(PP_OCR!, images);
    assert.match(wanted[0]!, /^To facilitate the shot type analysis/);
    for (const files of variants) {
      await withFolder(files, async (path) => {
        const { detection, classification, recognition } = await readPaddleConfig(
          await openAnyFolder(path),
        );
        assert.deepEqual({ ...detection, file: "" }, { ...described.detection, file: "" });
        assert.deepEqual({ ...classification, file: "" }, {
          ...described.classification,
          file: "",
        });
        assert.deepEqual({ ...recognition[0], file: "" }, {
          ...described.recognition[0],
          file: "",
        });
        assert.deepEqual(await read(path, images), wanted);
      });
    }
  },
});
