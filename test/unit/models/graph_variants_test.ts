/** Choosing a graph from the list of a folder's files, in the layouts of onnxruntime-genai, Olive and Optimum. */
import assert from "node:assert/strict";
import { type ModelFolder, withGenaiConfig } from "../../../src/hub/model_folder.ts";
import { identifyFamily } from "../../../src/models/load/identify_family.ts";
import { chooseGraphs } from "../../../src/models/folder/graph_choice.ts";
import { chooseFiles } from "../../../src/models/load/choose_files.ts";

const CONFIG = { model_type: "phi3", architectures: ["Phi3ForCausalLM"] };
const SETTINGS = ["genai_config.json", "tokenizer.json", "tokenizer_config.json"];

function makeFolder(files: readonly string[], path = "ada/engine"): ModelFolder {
  return { path, files: new Set(["config.json", ...files]), config: CONFIG };
}

/** A graph with its settings and weights in one subfolder. */
function variant(place: string, graph = "model"): string[] {
  return [...SETTINGS, `${graph}.onnx`, `${graph}.onnx.data`].map((file) => `${place}/${file}`);
}

function chosen(folder: ModelFolder, device: "cpu" | "gpu" | "gpuWithF16", dtype?: "fp16"): string {
  const { path, dtype: seen } =
    chooseGraphs(folder, identifyFamily(folder).graphs(folder), { device, dtype }).main;
  return `${path} ${seen}`;
}

Deno.test("chooseGraphs() chooses the variant for the device in a repository of onnxruntime-genai", () => {
  const phi = makeFolder([
    ...variant("cpu_and_mobile/cpu-int4-rtn-block-32"),
    ...variant(
      "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4",
      "phi3-mini-4k-instruct-cpu-int4",
    ),
    ...variant("cuda/cuda-fp16", "phi3-mini-4k-instruct-cuda-fp16"),
    ...variant("cuda/cuda-int4-rtn-block-32", "phi3-mini-4k-instruct-cuda-int4"),
    ...variant("directml/directml-int4-awq-block-128"),
    ...variant("npu/qnn-int4"),
  ]);
  assert.equal(
    chosen(phi, "cpu"),
    "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4/phi3-mini-4k-instruct-cpu-int4.onnx q4",
  );
  assert.equal(
    chosen(phi, "gpuWithF16"),
    "cuda/cuda-int4-rtn-block-32/phi3-mini-4k-instruct-cuda-int4.onnx q4f16",
  );
  assert.equal(
    chosen(phi, "gpuWithF16", "fp16"),
    "cuda/cuda-fp16/phi3-mini-4k-instruct-cuda-fp16.onnx fp16",
  );
  const nested = makeFolder([
    ...variant("onnxruntime/cpu/int4"),
    ...variant("onnxruntime/webgpu/int4"),
    ...variant("onnxruntime/cuda/int4"),
  ]);
  assert.equal(chosen(nested, "cpu"), "onnxruntime/cpu/int4/model.onnx q4");
  const below = makeFolder(variant("onnx/cpu_and_mobile/cpu-int4-rtn-block-32"));
  assert.equal(chosen(below, "cpu"), "onnx/cpu_and_mobile/cpu-int4-rtn-block-32/model.onnx q4");
  assert.equal(chosen(nested, "gpuWithF16"), "onnxruntime/webgpu/int4/model.onnx q4f16");
});

Deno.test("chooseGraphs() finds graphs at the root, and their dtype by suffix or by the folder's name", () => {
  const root = (files: readonly string[], path?: string) => chosen(makeFolder(files, path), "cpu");
  assert.equal(root(["model.onnx", "model.onnx.data"]), "model.onnx fp32");
  assert.equal(root(["model.onnx"], "/models/Phi-4-int4-cpu"), "model.onnx q4");
  assert.equal(root(["model.onnx", "model_q4.onnx"]), "model_q4.onnx q4");
  assert.equal(root(["model.onnx", "onnx/model_q4.onnx"]), "onnx/model_q4.onnx q4");
  const whisper = {
    ...makeFolder(["encoder_model.onnx", "decoder_model_merged.onnx"]),
    config: { model_type: "whisper", architectures: ["WhisperForConditionalGeneration"] },
  };
  const { all } = chooseGraphs(whisper, identifyFamily(whisper).graphs(whisper), { device: "cpu" });
  assert.deepEqual(all.map(({ path }) => path), [
    "decoder_model_merged.onnx",
    "encoder_model.onnx",
  ]);
});

Deno.test("chooseGraphs() lists the existing graphs if it finds none, or none of a dtype", () => {
  const other = makeFolder(["graphs/decoder.onnx", "graphs/head.onnx"]);
  assert.throws(() => chosen(other, "cpu"), {
    message: /it has no onnx\/model\*\.onnx, but graphs\/decoder\.onnx, graphs\/head\.onnx\./,
  });
  const cpu = makeFolder(variant("cpu_and_mobile/cpu-int4-rtn-block-32"));
  assert.throws(() => chosen(cpu, "cpu", "fp16"), {
    message:
      /no graph of dtype fp16: it has cpu_and_mobile\/cpu-int4-rtn-block-32\/model\.onnx \(q4\)/,
  });
});

Deno.test("chooseFiles() chooses one variant with its weights, and the settings next to it and in `settingsIn`", () => {
  const cpu = "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4";
  const gpu = "gpu/gpu-int4-rtn-block-32";
  const folder = {
    ...makeFolder([...variant(cpu), ...variant(gpu), "README.md"]),
    settingsIn: cpu,
  };
  const { files } = chooseFiles(folder, { device: "gpuWithF16" });
  const settings = [cpu, gpu].flatMap((place) => SETTINGS.map((file) => `${place}/${file}`));
  assert.deepEqual(
    [...files].sort(),
    ["config.json", ...settings, `${gpu}/model.onnx`, `${gpu}/model.onnx.data`].sort(),
  );
  assert.equal(files.at(-1), `${gpu}/model.onnx`);
});

Deno.test("identifyFamily() refuses a repository of several models, and asks for the folder of one", () => {
  const folder = makeFolder([
    ...variant("gemma-3-4b-it/cpu_and_mobile/int4"),
    ...variant("gemma-3-4b-it/gpu/int4"),
    ...variant("gemma-3-12b-it/gpu/int4"),
  ]);
  assert.throws(() => identifyFamily(folder), {
    message:
      /holds several models, gemma-3-12b-it, gemma-3-4b-it: .* name the folder of one of them/,
  });
});

const GENAI = {
  model: {
    type: "phi3",
    bos_token_id: 1,
    eos_token_id: [32007, 32001, 32000],
    pad_token_id: 32000,
    context_length: 4096,
    vocab_size: 32064,
    decoder: {
      filename: "model.onnx",
      head_size: 96,
      hidden_size: 3072,
      num_attention_heads: 32,
      num_hidden_layers: 32,
      num_key_value_heads: 32,
    },
  },
  search: { do_sample: true },
};

Deno.test("withGenaiConfig() converts genai_config.json to a config.json, or completes a given one", () => {
  assert.deepEqual(withGenaiConfig({}, GENAI), {
    model_type: "phi3",
    architectures: ["phi3ForCausalLM"],
    vocab_size: 32064,
    max_position_embeddings: 4096,
    bos_token_id: 1,
    pad_token_id: 32000,
    hidden_size: 3072,
    head_dim: 96,
    num_attention_heads: 32,
    num_key_value_heads: 32,
    num_hidden_layers: 32,
    eos_token_id: [32007, 32001, 32000],
  });
  const own = { ...CONFIG, max_position_embeddings: 131_072, eos_token_id: 32000 };
  const { architectures, max_position_embeddings, eos_token_id } = withGenaiConfig(own, GENAI);
  assert.deepEqual(architectures, CONFIG.architectures);
  assert.equal(max_position_embeddings, 131_072);
  assert.deepEqual(eos_token_id, [32000, 32007, 32001]);
  assert.deepEqual(withGenaiConfig(CONFIG, undefined), CONFIG);
});

Deno.test("identifyFamily() refuses onnxruntime-genai folders with more than a decoder, naming the parts", () => {
  for (const part of ["vision", "speech", "encoder"]) {
    const genai = { model: { ...GENAI.model, type: "phi4mm", [part]: { filename: "v.onnx" } } };
    const folder = {
      path: "x",
      files: new Set(["genai_config.json", "text.onnx", "v.onnx"]),
      config: withGenaiConfig({}, genai),
      identity: { "genai_config.json": genai },
    };
    assert.throws(() => identifyFamily(folder), {
      message: new RegExp(`more than a decoder \\(${part}\\)`),
    });
  }
});

Deno.test("chooseGraphs() chooses the graph that genai_config.json names, whatever other files there are", () => {
  const files = [...SETTINGS, "decoder.onnx", "decoder.onnx.data", "sampler.onnx"];
  const folder = {
    ...makeFolder(files),
    identity: { "genai_config.json": { model: { decoder: { filename: "decoder.onnx" } } } },
  };
  assert.equal(chosen(folder, "cpu"), "decoder.onnx fp32");
});
