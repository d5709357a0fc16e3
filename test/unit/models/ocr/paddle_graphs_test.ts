import assert from "node:assert/strict";
import { StartupError } from "../../../../src/base/errors.ts";
import { identifyFamily } from "../../../../src/models/load/identify_family.ts";
import { chooseFiles } from "../../../../src/models/load/choose_files.ts";
import { choosePaddleGraphs } from "../../../../src/models/ocr/paddle_graphs.ts";

function makeFolder(...files: readonly string[]) {
  return { path: "some/folder", files: new Set(files), config: {} };
}

interface Chosen {
  readonly det: string;
  readonly cls: string | undefined;
  readonly rec: Readonly<Record<string, string>>;
}

function choose(...files: readonly string[]): Chosen {
  const { detection, classification, recognition } = choosePaddleGraphs(makeFolder(...files));
  return {
    det: detection.file,
    cls: classification?.file,
    rec: Object.fromEntries(recognition.map(({ language, file }) => [language, file])),
  };
}

/** The files of `SWHL/RapidOCR`. */
const RAPID_OCR = [
  "PP-OCRv1/ch_ppocr_mobile_v2.0_cls_infer.onnx",
  "PP-OCRv1/ch_ppocr_mobile_v2.0_det_infer.onnx",
  "PP-OCRv1/ch_ppocr_mobile_v2.0_rec_infer.onnx",
  "PP-OCRv1/ch_ppocr_server_v2.0_det_infer.onnx",
  "PP-OCRv1/ch_ppocr_server_v2.0_rec_infer.onnx",
  "PP-OCRv1/en_number_mobile_v2.0_rec_infer.onnx",
  "PP-OCRv1/japan_rec_crnn.onnx",
  "PP-OCRv1/korean_mobile_v2.0_rec_infer.onnx",
  "PP-OCRv2/ch_PP-OCRv2_det_infer.onnx",
  "PP-OCRv2/ch_PP-OCRv2_rec_infer.onnx",
  "PP-OCRv3/ch_PP-OCRv3_det_infer.onnx",
  "PP-OCRv3/ch_PP-OCRv3_rec_infer.onnx",
  "PP-OCRv3/ch_ppocr_mobile_v2.0_cls_train.onnx",
  "PP-OCRv3/en_PP-OCRv3_rec_infer.onnx",
  "PP-OCRv4/ch_PP-OCRv4_det_infer.onnx",
  "PP-OCRv4/ch_PP-OCRv4_det_server_infer.onnx",
  "PP-OCRv4/ch_PP-OCRv4_rec_infer.onnx",
  "PP-OCRv4/ch_PP-OCRv4_rec_server_infer.onnx",
  "PP-OCRv4/en_PP-OCRv3_det_infer.onnx",
  "README.md",
];

const KNOWN: Readonly<Record<string, readonly [readonly string[], Chosen]>> = {
  "SWHL/RapidOCR": [RAPID_OCR, {
    det: "PP-OCRv4/ch_PP-OCRv4_det_infer.onnx",
    cls: "PP-OCRv1/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    rec: { ch: "PP-OCRv4/ch_PP-OCRv4_rec_infer.onnx" },
  }],
  "marsena/paddleocr-onnx-models": [[
    "PP-LCNet_x1_0_doc_ori_infer.onnx",
    "PP-LCNet_x1_0_textline_ori_infer.onnx",
    "PP-OCRv5_server_det_infer.onnx",
    "PP-OCRv5_server_rec_infer.onnx",
    "PP-OCRv5_server_rec_infer.yml",
    "UVDoc_infer.onnx",
  ], {
    det: "PP-OCRv5_server_det_infer.onnx",
    cls: "PP-LCNet_x1_0_textline_ori_infer.onnx",
    rec: { "": "PP-OCRv5_server_rec_infer.onnx" },
  }],
  "RapidOCR's own folder": [[
    "ch_PP-OCRv5_det_mobile.onnx",
    "ch_PP-LCNet_x0_25_textline_ori_cls_mobile.onnx",
    "ch_PP-OCRv5_rec_mobile.onnx",
    "korean_PP-OCRv5_rec_mobile.onnx",
    "latin_PP-OCRv3_rec_mobile.onnx",
  ], {
    det: "ch_PP-OCRv5_det_mobile.onnx",
    cls: "ch_PP-LCNet_x0_25_textline_ori_cls_mobile.onnx",
    rec: {
      ch: "ch_PP-OCRv5_rec_mobile.onnx",
      korean: "korean_PP-OCRv5_rec_mobile.onnx",
      latin: "latin_PP-OCRv3_rec_mobile.onnx",
    },
  }],
  "PaddleOCR's folders": [[
    "PP-OCRv5_mobile_det_onnx/inference.onnx",
    "PP-OCRv5_mobile_det_onnx/inference.yml",
    "PP-OCRv5_mobile_rec_onnx/inference.onnx",
    "PP-OCRv5_mobile_rec_onnx/inference.yml",
    "en_PP-OCRv5_mobile_rec_onnx/inference.onnx",
    "PP-LCNet_x1_0_textline_ori_onnx/inference.onnx",
    "PP-LCNet_x1_0_doc_ori_onnx/inference.onnx",
  ], {
    det: "PP-OCRv5_mobile_det_onnx/inference.onnx",
    cls: "PP-LCNet_x1_0_textline_ori_onnx/inference.onnx",
    rec: {
      "": "PP-OCRv5_mobile_rec_onnx/inference.onnx",
      en: "en_PP-OCRv5_mobile_rec_onnx/inference.onnx",
    },
  }],
  "a folder with short names": [["det.onnx", "rec.onnx", "cls.onnx", "ppocr_keys_v1.txt"], {
    det: "det.onnx",
    cls: "cls.onnx",
    rec: { "": "rec.onnx" },
  }],
};

for (const [name, [files, wanted]] of Object.entries(KNOWN)) {
  Deno.test(`choosePaddleGraphs() recognizes the graphs of ${name}`, () => {
    assert.equal(identifyFamily(makeFolder(...files)).name, "PP-OCR as it is published");
    assert.deepEqual(choose(...files), wanted);
  });
}

Deno.test("chooseFiles() chooses only PP-OCR's graphs, settings and dictionaries", () => {
  const folder = makeFolder(
    ...KNOWN["PaddleOCR's folders"]![0],
    "en_dict.txt",
    "README.md",
    "requirements.txt",
  );
  const { files, graphs, kind, dtype } = chooseFiles(folder, { device: "cpu" });
  assert.deepEqual([kind, dtype], ["ocr", "fp32"]);
  assert.equal(graphs.length, 4);
  assert.deepEqual(files.filter((file) => !graphs.includes(file)).sort(), [
    "PP-OCRv5_mobile_det_onnx/inference.yml",
    "PP-OCRv5_mobile_rec_onnx/inference.yml",
    "en_dict.txt",
  ]);
  assert.throws(() => chooseFiles(folder, { device: "cpu", dtype: "q4" }), {
    name: "StartupError",
    message: /comes only in fp32, not in q4/,
  });
});

const UNCLEAR: Readonly<Record<string, readonly [readonly string[], RegExp]>> = {
  "no recogniser": [
    ["ch_PP-OCRv4_det_infer.onnx"],
    /has ch_PP-OCRv4_det_infer\.onnx\. Wanted: a graph for detection .* and one for recognition/,
  ],
  "no detector": [["rec.onnx"], /has rec\.onnx\. Wanted: a graph for detection/],
  "two detectors of the same version": [
    ["a_det.onnx", "b_det.onnx", "rec.onnx"],
    /has a_det\.onnx and b_det\.onnx, whose names do not show/,
  ],
  "two recognisers of the same language": [
    ["det.onnx", "ch_PP-OCRv4_rec_infer.onnx", "ch_PP-OCRv4_rec_mobile.onnx"],
    /has ch_PP-OCRv4_rec_infer\.onnx and ch_PP-OCRv4_rec_mobile\.onnx/,
  ],
};

for (const [name, [files, message]] of Object.entries(UNCLEAR)) {
  Deno.test(`a folder of PP-OCR with ${name} is refused, naming the found and the required files`, () => {
    const folder = makeFolder(...files);
    assert.equal(identifyFamily(folder).kind, "ocr");
    assert.throws(() => choosePaddleGraphs(folder), (error: unknown) => {
      assert.ok(error instanceof StartupError);
      assert.match(error.message, message);
      return true;
    });
  });
}

Deno.test("identifyFamily() names the required files if a folder has only other graphs", () => {
  assert.throws(() => identifyFamily(makeFolder("yolo.onnx")), {
    name: "StartupError",
    message: /has no config\.json\. Wanted: a model in the layout of transformers\.js .* PP-OCR/,
  });
});
