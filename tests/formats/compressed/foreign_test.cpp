// Tests folders whose weights are encoded by methods that Troupe does not decode: such folders must be recognised by
// config.json or by their tensors alone.
#include "formats/compressed/foreign.hpp"

#include <fmt/format.h>

#include "checkpoint/convert/open_source.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(foreign)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;
using core::dtype;

namespace {

struct stored_tensor {
  std::string name, type;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

/// Returns a safetensors file with tensors of any type, whose bytes are zeros.
std::string file_of(const std::vector<stored_tensor>& tensors) {
  std::string header = "{";
  int64_t at = 0;
  for (const auto& t : tensors) {
    std::string shape;
    for (const int64_t d : t.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ",", d);
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.size() > 1 ? "," : "", t.name, t.type, shape, at, at + t.bytes);
    at += t.bytes;
  }
  return as_file(header + "}", std::string(static_cast<size_t>(at), '\0'));
}

const stored_tensor norm{"model.norm.weight", "F32", {8}, 32};
const std::string linear = "model.layers.0.mlp.up_proj";

/// A folder as a quantisation tool writes it for one linear layer.
struct quantised {
  std::string method, config;
  std::vector<stored_tensor> tensors;
};
const std::vector<quantised> all_quantised{
    {"GPTQ",
     R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})",
     {{linear + ".qweight", "I32", {1, 8}, 32}, {linear + ".g_idx", "I32", {8}, 32}}},
    {"AWQ",
     R"({"quantization_config": {"quant_method": "awq", "bits": 4}})",
     {{linear + ".qweight", "I32", {8, 1}, 32}}},
    {"bitsandbytes",
     R"({"quantization_config": {"load_in_4bit": true}})",
     {{linear + ".weight", "U8", {32, 1}, 32}, {linear + ".weight.absmax", "F32", {1}, 4}}},
    {"bitsandbytes",
     R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true}})",
     {{linear + ".weight", "I8", {4, 8}, 32}, {linear + ".SCB", "F32", {4}, 16}}},
    {"MLX",
     R"({"quantization": {"group_size": 64, "bits": 4}})",
     {{linear + ".weight", "U32", {4, 1}, 16},
      {linear + ".scales", "F16", {4, 1}, 8},
      {linear + ".biases", "F16", {4, 1}, 8}}},
    {"HQQ", R"({"quantization_config": {"quant_method": "hqq"}})", {{linear + ".W_q", "U8", {4, 8}, 32}}},
    {"EETQ",
     R"({"quantization_config": {"quant_method": "eetq"}})",
     {{linear + ".weight", "I8", {4, 8}, 32}, {linear + ".weight_scales", "F16", {8}, 16}}},
    {"quanto",
     R"({"quantization_config": {"quant_method": "quanto"}})",
     {{linear + ".weight._data", "I8", {4, 8}, 32}}},
    {"AQLM",
     R"({"quantization_config": {"quant_method": "aqlm"}})",
     {{linear + ".codes", "I8", {4, 8}, 32}, {linear + ".codebooks", "F16", {1, 8}, 16}}},
    {"MXFP4",
     R"({"quantization_config": {"quant_method": "mxfp4"}})",
     {{"model.layers.0.mlp.experts.down_proj_blocks", "U8", {4, 8}, 32},
      {"model.layers.0.mlp.experts.down_proj_scales", "U8", {4}, 4}}},
    {"torchao", R"({"text_config": {"quantization_config": {"quant_method": "torchao"}}})", {}},
    {"something_new", R"({"quantization_config": {"quant_method": "something_new"}})", {}}};

}  // namespace

BOOST_AUTO_TEST_CASE(codes_of_every_tool_are_refused_by_the_name_that_config_json_says) {
  for (const auto& q : all_quantised) {
    BOOST_TEST_CONTEXT(q.method << " " << q.config) {
      const scratch_folder at;
      auto tensors = q.tensors;
      tensors.push_back(norm);
      at.write("model.safetensors", file_of(tensors));
      at.write("config.json", q.config);
      check_failed(open_source(at.path()), error_kind::bad_input,
                   "its weights are quantised with " + q.method + " (config.json: ");
      // Commands that only show or compare open the weights as stored.
      const auto shown = check_ok(open_source(at.path(), {.as_stored = true}));
      BOOST_TEST(shown->tensors.size() + shown->unread.size() == tensors.size());
      BOOST_TEST(shown->remarks.back().starts_with("weights are quantised with " + q.method), shown->remarks.back());
    }
  }
}

BOOST_AUTO_TEST_CASE(codes_are_known_by_their_tensors_where_no_config_json_lies_beside) {
  for (const auto& q : all_quantised) {
    if (q.tensors.empty()) continue;
    BOOST_TEST_CONTEXT(q.method) {
      const scratch_folder at;
      const auto file = at.write("weights.safetensors", file_of(q.tensors));
      const auto refused = open_source(file);
      check_failed(refused, error_kind::bad_input,
                   q.method == "AWQ" ? "quantised with AWQ or GPTQ" : "quantised with " + q.method);
    }
  }
  const scratch_folder at;
  check_failed(open_source(at.write("w.safetensors", file_of({{linear + ".weight", "I8", {4, 8}, 32}}))),
               error_kind::bad_input,
               "an unknown method (tensor 'model.layers.0.mlp.up_proj.weight' has the type int8)");
  for (const auto& [type, bytes] : {std::pair("F8_E5M2", 32), std::pair("C64", 256)}) {
    const auto file = at.write("e.safetensors", file_of({norm, {linear + ".weight", type, {4, 8}, bytes}}));
    check_failed(open_source(file), error_kind::bad_input,
                 std::string("': tensor 'model.layers.0.mlp.up_proj.weight' has the type ") + type +
                     ", which is not read: save it as float32, float16 or bfloat16");
    const auto shown = check_ok(open_source(file, {.as_stored = true}));
    BOOST_REQUIRE(shown->remarks.size() == 1U);
    BOOST_TEST(shown->remarks[0].starts_with("left out: "), shown->remarks[0]);
  }
}

BOOST_AUTO_TEST_CASE(weights_that_no_method_has_changed_are_read) {
  for (const char* config :
       {R"({"model_type": "llama"})", R"({"quantization_config": null})", R"({"quantization_config": {}})",
        R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": false, "load_in_8bit": false}})"}) {
    BOOST_TEST_INFO_SCOPE(config);
    const scratch_folder at;
    at.write("model.safetensors",
             file_of({norm, {"position_ids", "I64", {2}, 16}, {linear + ".mask", "U8", {4, 8}, 32}}));
    at.write("config.json", config);
    const auto s = check_ok(open_source(at.path()));
    BOOST_TEST(s->tensors.size() == 3U);
  }
}

BOOST_AUTO_TEST_CASE(tensors_of_types_that_are_not_read_are_left_out_by_name) {
  for (const auto& [type, bytes] : std::vector<std::pair<std::string, int64_t>>{{"U16", 8},
                                                                                {"U32", 16},
                                                                                {"U64", 32},
                                                                                {"C64", 32},
                                                                                {"F8_E5M2", 4},
                                                                                {"F8_E8M0", 4},
                                                                                {"F4", 2},
                                                                                {"F8_E4M3", 4}}) {
    BOOST_TEST_CONTEXT(type) {
      const scratch_folder at;
      const auto s = check_ok(open_source(at.write("w.safetensors", file_of({norm, {"x", type, {4}, bytes}}))));
      BOOST_REQUIRE(s->tensors.size() == 1U);
      BOOST_TEST(s->tensors[0].name == "model.norm.weight");
      BOOST_REQUIRE(s->remarks.size() == 1U);
      BOOST_TEST(s->remarks[0].starts_with("left out: 'x' of " + type + ": only tensors of float64, "), s->remarks[0]);
      check_failed(open_source(at.write("cut.safetensors", file_of({norm, {"x", type, {4}, bytes - 1}}))),
                   error_kind::bad_input, fmt::format("its shape and dtype {} take {} bytes", type, bytes));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
