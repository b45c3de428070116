// Tests `troupe compress`: it makes a folder with a model of Llama's form smaller, and other commands read the result.
#include <map>
#include <nlohmann/json.hpp>

#include "core/math.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "tests/apps/topology.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(compress_command)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;
using json = nlohmann::json;

namespace {

constexpr const char* llama =
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64,
        "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 16, "max_position_embeddings": 8,
        "tie_word_embeddings": true})";

struct llama_folder {
  scratch_folder folder;

  llama_folder() {
    std::vector<std::vector<float>> values;
    std::vector<formats::tensor_to_write> tensors;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      auto& v = values.emplace_back(core::numel_of(shape));
      for (size_t i = 0; i < v.size(); ++i)
        v[i] = static_cast<float>(core::mix64(values.size() * 1000 + i) >> 40) * 0x1p-24F - 0.5F;
      tensors.push_back({name, core::dtype::f32, std::move(shape)});
    };
    const std::string at = "model.layers.0.";
    add("model.embed_tokens.weight", {16, 32});
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) add(at + norm + ".weight", {32});
    add(at + "self_attn.q_proj.weight", {32, 32});
    add(at + "self_attn.k_proj.weight", {16, 32});
    add(at + "self_attn.v_proj.weight", {16, 32});
    add(at + "self_attn.o_proj.weight", {32, 32});
    add(at + "mlp.gate_proj.weight", {64, 32});
    add(at + "mlp.up_proj.weight", {64, 32});
    add(at + "mlp.down_proj.weight", {32, 64});
    add("model.norm.weight", {32});
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = std::as_bytes(std::span(values[i]));
    check_ok(formats::write_weights_folder(folder / "model", tensors));
    folder.write("model/config.json", llama);
    folder.write("model/tokenizer.json", "{}");
  }

  finished troupe(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), troupe::places::troupe_binary);
    return run(arguments, folder.path());
  }
  void check_refused(std::vector<std::string> options, const std::string& part) const {
    options.insert(options.begin(), {"compress", "model", "out"});
    const auto r = check_exit(2, troupe(options));
    BOOST_TEST(has(r.err, part), "no '" << part << "' in: " << r.err);
    BOOST_TEST(sentences_of(r.err) == 1U, r.err);
    BOOST_TEST(!fs::exists(folder / "out"));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_compressed_folder_says_what_it_is_and_is_read_back_by_every_command) {
  const llama_folder f;
  const auto r = check_exit(
      0, f.troupe({"compress", "model", "out", "--to", "compressed-tensors:int4", "--group", "32", "--asymmetric"}));
  BOOST_TEST(has(r.out, " out x in   bits    error\n"), r.out);
  BOOST_TEST(has(r.out, "model.layers.0.mlp.down_proj           32 x 64   4.69    6."), r.out);
  BOOST_TEST(has(r.out, "from_pretrained(\"out\") opens it"), r.out);
  BOOST_TEST(r.out.ends_with("\n38.4 KiB -> 6.50 KiB (5.4 bits a weight)\n"), r.out);
  const auto config = json::parse(scratch_folder::read(f.folder / "out/config.json"));
  BOOST_TEST(config["quantization_config"]["format"] == "pack-quantized");
  BOOST_TEST(config["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"] == 32);
  BOOST_TEST(config["dtype"] == "bfloat16");
  BOOST_TEST(scratch_folder::read(f.folder / "out/tokenizer.json") == "{}");

  const auto shown = f.troupe({"checkpoint", "inspect", "out"});
  BOOST_TEST(has(shown.out, "out: Hugging Face, pack-quantized, 11 tensors"), shown.out);
  BOOST_TEST(f.troupe({"checkpoint", "verify", "out", "--quiet"}).code == 0);
  BOOST_TEST(f.troupe({"checkpoint", "diff", "model", "out", "--tolerance", "0.06", "--quiet"}).code == 0);
  BOOST_TEST(f.troupe({"checkpoint", "diff", "model", "out", "--tolerance", "0.01", "--quiet"}).code == 1);
  BOOST_TEST_REQUIRE(f.troupe({"checkpoint", "to-hf", "out", "plain", "--quiet"}).code == 0);
  BOOST_TEST(!json::parse(scratch_folder::read(f.folder / "plain/config.json")).contains("quantization_config"));
  BOOST_TEST(f.troupe({"checkpoint", "diff", "out", "plain", "--tolerance", "0", "--quiet"}).code == 0);
  BOOST_TEST_REQUIRE(f.troupe({"compress", "out", "again", "--to", "compressed-tensors:mxfp4", "--quiet"}).code == 0);
}

BOOST_AUTO_TEST_CASE(training_begins_with_compressed_weights_where_it_is_told_to_dequantise_them) {
  const llama_folder f;
  BOOST_TEST_REQUIRE(f.troupe({"compress", "model", "out", "--to", "compressed-tensors:fp8", "--quiet"}).code == 0);
  BOOST_TEST_REQUIRE(
      f.troupe({"compress", "model", "out.gguf", "--to", "gguf:q4_0", "--tokenizer", "bytes", "--quiet"}).code == 0);
  f.folder.write("corpus.txt", std::string(2000, '\1'));
  const std::string rest = R"(
data: {text: corpus.txt}
seed: 1
steps: 2
train_micro_batch_size_per_gpu: 1
optimizer: {type: AdamW, params: {lr: 1.0e-3}}
checkpoint: {every_steps: 2}
output: run
)";
  f.folder.write("sizes.yaml", "model: " + std::string(llama) + rest);
  f.folder.write("path.yaml", "model: {path: out}" + rest);
  const std::vector<std::vector<std::string>> ways{
      {"sizes.yaml", "--resume", "out"}, {"path.yaml"}, {"sizes.yaml", "--resume", "out.gguf"}};
  for (const auto& way : ways) {
    std::vector<std::string> command{"train"};
    command.insert(command.end(), way.begin(), way.end());
    command.insert(command.end(), {"--quiet", "--fresh"});
    const auto refused = check_exit(2, f.troupe(command));
    BOOST_TEST(
        has(refused.err, "/" + std::string(way.back() == "out.gguf" ? "out.gguf" : "out") +
                             "': its weights are compressed: set model.dequantise: true (--dequantise) to begin with"),
        refused.err);
    BOOST_TEST(sentences_of(refused.err) == 1U, refused.err);

    // A run from the compressed weights must start with the weights of the folder `whole`, to which they were expanded.
    command.push_back("--dequantise");
    check_exit(0, f.troupe(command));
    const std::string from = way.back() == "out.gguf" ? "out.gguf" : "out";
    BOOST_TEST_REQUIRE(f.troupe({"checkpoint", "to-hf", from, "whole", "--quiet", "--force"}).code == 0);
    BOOST_TEST_REQUIRE(
        f.troupe({"train", "sizes.yaml", "--resume", "whole", "--quiet", "--fresh", "--set", "output=plain"}).code ==
        0);
    check_exit(0, f.troupe({"checkpoint", "diff", "run/checkpoints", "plain/checkpoints", "--tolerance", "0"}));
  }
  // An export of dequantised weights contains full-precision weights, and its config.json names no quantisation.
  f.folder.write("keyed.yaml", "model: {path: out, dequantise: true}" + rest);
  BOOST_TEST_REQUIRE(f.troupe({"train", "keyed.yaml", "--quiet", "--fresh", "--export", "exported"}).code == 0);
  BOOST_TEST(!json::parse(scratch_folder::read(f.folder / "exported/config.json")).contains("quantization_config"));
  BOOST_TEST(f.troupe({"checkpoint", "verify", "exported", "--quiet"}).code == 0);
}

BOOST_AUTO_TEST_CASE(every_format_is_written_and_replaces_an_earlier_one_when_told_to) {
  const llama_folder f;
  for (const char* format : {"int8", "w8a8", "fp8", "mxfp4", "nvfp4", "int3"}) {
    std::vector<std::string> command{"compress", "model", "out", "--to", std::string("compressed-tensors:") + format,
                                     "--force"};
    if (std::string(format) == "int3") command.insert(command.end(), {"--group", "16"});
    const auto r = f.troupe(command);
    BOOST_TEST(r.code == 0, format << ": " << r.err);
    BOOST_TEST(f.troupe({"checkpoint", "verify", "out", "--quiet"}).code == 0, format);
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_compressed_so_is_refused_in_one_sentence_and_leaves_nothing) {
  const llama_folder f;
  f.check_refused({"--to", "onnx:q4_0"}, "--to: wanted compressed-tensors:FORMAT or gguf:TYPE, got 'onnx:q4_0'");
  f.check_refused({"--to", "compressed-tensors:int1"},
                  "wanted int4, int8 (or int2 to int7), w8a8, fp8, mxfp4 or nvfp4");
  f.check_refused({"--to", "compressed-tensors:int4", "--method", "gptq"},
                  "--method gptq needs a text for calibration: give --calibrate FILE");
  f.check_refused({"--to", "compressed-tensors:int4"}, "groups of 128 do not divide rows of 64; 64, 32, 16, 8 would");
  f.check_refused({"--to", "compressed-tensors:mxfp4", "--asymmetric"}, "mxfp4 has no zero points: it is symmetric");
  f.check_refused({"--to", "compressed-tensors:int8", "--dtype", "int8"},
                  "--dtype: wanted fp32, bf16 or fp16, got 'int8'");
  f.folder.write("model/config.json", R"({"model_type": "gpt2"})");
  f.check_refused({"--to", "compressed-tensors:int8"}, "transformers' GPT2LMHeadModel has Conv1D layers");
  f.folder.write("model/config.json", R"({"model_type": "mamba"})");
  f.check_refused({"--to", "compressed-tensors:int8"}, "wanted a family of linear layers (gemma, gemma2, gemma3_text,");
  fs::remove(f.folder / "model/config.json");
  f.check_refused({"--to", "compressed-tensors:int8"}, "give Hugging Face's config.json by --model-config");
}

BOOST_AUTO_TEST_SUITE_END()
