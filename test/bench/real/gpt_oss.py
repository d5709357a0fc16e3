"""Writes a twin of gpt-oss-20b, with random weights and any number of layers, in the layout of onnxruntime-genai's builder
for the CPU and WebGPU: QMoE of 4 bits in blocks of 32. The builder only writes MXFP4 for CUDA.

Needs numpy and onnx: python gpt_oss.py OUT_FOLDER [q4 | q4f16] [layers=24] [vocab=201088]
"""

import json
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = dict(layers=24, hidden=2880, inner=2880, experts=32, chosen=4, heads=64, kv_heads=8, head=64, vocab=201088)
BLOCK = 32
WINDOW = 128
POSITIONS = 4096
MICROSOFT = "com.microsoft"
EPSILON = 1e-5


class Twin:
    """A graph whose weights are appended to one file."""

    def __init__(self, folder, dtype, sizes):
        self.sizes, self.nodes, self.constants, self.names = sizes, [], [], set()
        self.random = np.random.default_rng(1)
        self.float, self.type = (np.float16, TensorProto.FLOAT16) if dtype == "q4f16" else (np.float32, TensorProto.FLOAT)
        self.path = os.path.join(folder, "onnx", f"model_{dtype}.onnx")
        self.data = open(self.path + "_data", "wb")

    def constant(self, name, array):
        if name in self.names:
            return name
        self.names.add(name)
        dtype = numpy_helper.from_array(np.empty(0, array.dtype)).data_type
        tensor = TensorProto(name=name, dims=array.shape, data_type=dtype, data_location=TensorProto.EXTERNAL)
        place = dict(location=os.path.basename(self.path) + "_data", offset=self.data.tell(), length=array.nbytes)
        for key, value in place.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        self.data.write(np.ascontiguousarray(array).tobytes())
        self.constants.append(tensor)
        return name

    def ints(self, values):
        name = f"/model/constants/INT64/{values}"
        if name not in self.names:
            self.names.add(name)
            self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def floats(self, name, shape, size=1.0, base=0.0):
        values = (self.random.random(shape, np.float32) - 0.5) * 2 * size + base
        return self.constant(name, values.astype(self.float))

    def node(self, op, inputs, outputs, domain="", **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(op, inputs, outputs, name=outputs[0].replace("/output_0", ""), domain=domain, **attributes))
        return outputs[0]

    def blocks(self, name, shape):
        """Adds random levels and scales of weights `[..., outputs, k]`."""
        levels = self.random.integers(0, 256, (*shape[:-1], shape[-1] // 2), np.uint8)
        return levels, self.floats(f"{name}.scales", (*shape[:-1], shape[-1] // BLOCK), 0.01 / shape[-1] ** 0.5, 0.2 / shape[-1] ** 0.5)

    def linear(self, x, name, outputs, k, has_bias=True):
        levels, scales = self.blocks(name, (outputs, k))
        weights = self.constant(f"{name}.weight_Q4", levels.reshape(outputs, k // BLOCK, BLOCK // 2))
        y = self.node("MatMulNBits", [x, weights, scales], f"/{name}/MatMul/output_0", MICROSOFT, K=k, N=outputs, bits=4, block_size=BLOCK, accuracy_level=4)
        return self.node("Add", [y, self.floats(f"{name}.bias", (outputs,), 0.1)], f"/{name}/Add/output_0") if has_bias else y

    def norm(self, name):
        return self.floats(name, (self.sizes["hidden"],), 0.1, 1.0)

    def skip_norm(self, residual, added, name, is_last=False):
        outputs = [f"/{name}/output_0"] + ([] if is_last else ["", "", f"/{name}/output_3"])
        self.node("SkipSimplifiedLayerNormalization", [residual, added, self.norm(f"{name}.weight")], outputs, MICROSOFT, epsilon=EPSILON)
        return f"/{name}/output_3", f"/{name}/output_0"

    def experts(self, x, name):
        s = self.sizes
        router = self.linear(x, f"{name}.router", s["experts"], s["hidden"])
        logits = self.node("Reshape", [router, self.ints([-1, s["experts"]])], f"/{name}/router/Reshape/output_0")
        inputs = [x, logits]
        for part, outputs, k in (("gate_up_proj", 2 * s["inner"], s["hidden"]), ("down_proj", s["hidden"], s["inner"])):
            levels, scales = self.blocks(f"{name}.experts.{part}", (s["experts"], outputs, k))
            inputs += [self.constant(f"{name}.experts.{part}.qweight", levels), scales]
            inputs.append(self.floats(f"{name}.experts.{part}.bias", (s["experts"], outputs), 0.1))
        return self.node(
            "QMoE", inputs + [""] * 6, f"/{name}/QMoE/output_0", MICROSOFT, k=s["chosen"], activation_type="swiglu",
            activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0, swiglu_fusion=1, normalize_routing_weights=1,
            use_sparse_mixer=0, expert_weight_bits=4, block_size=BLOCK,
        )

    def lengths(self):
        total = self.node("ReduceSum", ["attention_mask", self.ints([1])], "/lengths/sum/output_0", keepdims=1)
        last = self.node("Sub", [total, self.ints([1])], "/lengths/Sub/output_0")
        shape = self.node("Shape", ["attention_mask"], "/lengths/Shape/output_0")
        whole = self.node("Gather", [shape, self.ints(1)], "/lengths/Gather/output_0", axis=0)
        return [self.node("Cast", [x], f"/lengths/Cast_{i}/output_0", to=TensorProto.INT32) for i, x in enumerate((last, whole))]

    def build(self):
        s = self.sizes
        angles = np.outer(np.arange(POSITIONS), 150000.0 ** (-np.arange(0, s["head"], 2) / s["head"]))
        tables = [self.constant(name, f(angles).astype(self.float)) for name, f in (("cos_cache", np.cos), ("sin_cache", np.sin))]
        lengths = self.lengths()
        residual = self.node("Gather", [self.floats("model.embed_tokens.weight", (s["vocab"], s["hidden"]), 0.03), "input_ids"], "/model/embed_tokens/output_0")
        x = self.node("SimplifiedLayerNormalization", [residual, self.norm("model.layers.0.input_layernorm.weight")], "/model/layers.0/input_layernorm/output_0", axis=-1, epsilon=EPSILON, stash_type=1)
        for i in range(s["layers"]):
            layer = f"model.layers.{i}"
            qkv = self.linear(x, f"{layer}.attn.qkv_proj", (s["heads"] + 2 * s["kv_heads"]) * s["head"], s["hidden"])
            sinks = self.floats(f"{layer}.attn.sinks", (s["heads"],))
            past = [f"past_key_values.{i}.{kind}" for kind in ("key", "value")]
            attended = self.node(
                "GroupQueryAttention", [qkv, "", "", *past, *lengths, *tables, "", "", sinks],
                [f"/{layer}/attn/GroupQueryAttention/output_0", f"present.{i}.key", f"present.{i}.value"], MICROSOFT,
                num_heads=s["heads"], kv_num_heads=s["kv_heads"], scale=s["head"] ** -0.5, softcap=0.0, do_rotary=1,
                rotary_interleaved=0, local_window_size=WINDOW if i % 2 == 0 else -1,
            )
            mixed = self.linear(attended, f"{layer}.attn.o_proj", s["hidden"], s["heads"] * s["head"])
            residual, x = self.skip_norm(residual, mixed, f"{layer}.post_attention_layernorm")
            added = self.experts(x, f"{layer}.moe")
            is_last = i == s["layers"] - 1
            following = f"model.layers.{i + 1}.{'final_norm' if is_last else 'input'}_layernorm"
            residual, x = self.skip_norm(residual, added, following, is_last)
        self.linear(x, "lm_head", s["vocab"], s["hidden"], has_bias=False)
        self.nodes[-1].output[0] = "logits"
        cache = lambda prefix, length: [
            helper.make_tensor_value_info(f"{prefix}.{i}.{kind}", self.type, ["batch_size", s["kv_heads"], length, s["head"]])
            for i in range(s["layers"]) for kind in ("key", "value")
        ]
        int64 = lambda name, length: helper.make_tensor_value_info(name, TensorProto.INT64, ["batch_size", length])
        inputs = [int64("input_ids", "sequence_length"), int64("attention_mask", "total_sequence_length"), *cache("past_key_values", "past_sequence_length")]
        logits = helper.make_tensor_value_info("logits", self.type, ["batch_size", "sequence_length", s["vocab"]])
        graph = helper.make_graph(self.nodes, "main_graph", inputs, [logits, *cache("present", "total_sequence_length")], self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        with open(self.path, "wb") as file:
            file.write(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
        self.data.close()


if __name__ == "__main__":
    folder, *options = sys.argv[1:]
    sizes = {**SIZES, **{key: int(value) for key, value in (each.split("=") for each in options if "=" in each)}}
    dtype = next((each for each in options if "=" not in each), "q4")
    os.makedirs(os.path.join(folder, "onnx"), exist_ok=True)
    config = dict(
        architectures=["GptOssForCausalLM"], model_type="gpt_oss", hidden_size=sizes["hidden"], intermediate_size=sizes["inner"],
        num_hidden_layers=sizes["layers"], num_attention_heads=sizes["heads"], num_key_value_heads=sizes["kv_heads"],
        head_dim=sizes["head"], vocab_size=sizes["vocab"], num_local_experts=sizes["experts"], num_experts_per_tok=sizes["chosen"],
        sliding_window=WINDOW, max_position_embeddings=POSITIONS, eos_token_id=199999,
    )
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    Twin(folder, dtype, sizes).build()
