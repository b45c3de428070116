// Tests Hugging Face model folders: written folders are read back, inconsistent ones are refused.
#include "models/families/hugging_face.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/safetensors/weights_folder.hpp"
#include "formats/torch/archive_writer.hpp"
#include "kernels/base/cast.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(hugging_face)

namespace {

const std::string tiny = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 4,
                             "vocab_size": 10, "summary_type": "cls_index"})";

struct tiny_model {
  model_spec spec = *parse_model_spec(tiny);
  core::model_table table = make_model_table(spec, 1, 4, 4);

  /// Returns a value that depends on its parameter and element.
  static float value(uint32_t parameter, uint64_t element) {
    return static_cast<float>(parameter) + static_cast<float>(element) / 1024.0F;
  }
  static core::result<void> values(uint32_t parameter, uint64_t first, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = value(parameter, first + i);
    return {};
  }
  /// Returns the values as tensors to write, for tests that modify some of them.
  [[nodiscard]] std::vector<formats::tensor_to_write> tensors() const {
    std::vector<formats::tensor_to_write> out;
    for (uint32_t p = 0; p < table.parameters.size(); ++p) {
      std::vector<float> all(table.parameters[p].numel());
      (void)values(p, 0, all);
      out.push_back({table.parameters[p].name, core::dtype::f32, table.parameters[p].shape, {}, from(all)});
    }
    return out;
  }
  static formats::byte_source from(std::vector<float> all) {
    return [all](uint64_t offset, std::span<std::byte> out) -> core::result<void> {
      std::copy_n(std::as_bytes(std::span(all)).begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
      return {};
    };
  }
};

void check_values(const weights_source& source, const core::model_table& table) {
  for (uint32_t p = 0; p < table.parameters.size(); ++p) {
    BOOST_TEST_INFO_SCOPE("p " << p);
    const uint64_t n = table.parameters[p].numel(), first = n / 3;
    std::vector<float> some(n - first);
    tests::check_ok(source.read(p, first, some));
    for (size_t i = 0; i < some.size(); ++i) BOOST_REQUIRE_EQUAL(some[i], tiny_model::value(p, first + i));
  }
}

std::string refusal(const std::filesystem::path& folder, const tiny_model& m) {
  const auto source = weights_source::open(folder, m.spec, m.table);
  BOOST_REQUIRE(!source.has_value());
  return source.error().text;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_written_folder_reads_back) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  BOOST_TEST(!has_weights(scratch.path()));
  tests::check_ok(write_folder(scratch.path(), m.spec, m.table, core::dtype::f32, tiny_model::values));
  BOOST_TEST(has_weights(scratch.path()));
  const auto spec = tests::check_ok(read_spec(scratch.path()));
  BOOST_TEST(spec->width == 8U);
  BOOST_TEST(contains(spec->hugging_face_json, "cls_index"));  // unknown keys are preserved
  BOOST_TEST(contains(spec->hugging_face_json, "GPT2LMHeadModel"));
  const auto source = tests::check_ok(weights_source::open(scratch.path(), *spec, m.table));
  check_values(**source, m.table);
}

BOOST_AUTO_TEST_CASE(a_folder_in_shards_reads_back) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  tests::check_ok(write_folder(scratch.path(), m.spec, m.table, core::dtype::f32, tiny_model::values, 1000));
  BOOST_TEST(std::filesystem::exists(scratch.path() / "model.safetensors.index.json"));
  BOOST_TEST(has_weights(scratch.path()));
  const auto source = tests::check_ok(weights_source::open(scratch.path(), m.spec, m.table));
  check_values(**source, m.table);
}

BOOST_AUTO_TEST_CASE(an_index_of_any_name_is_read_and_stands_for_its_folder) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  tests::check_ok(write_folder(scratch.path(), m.spec, m.table, core::dtype::f32, tiny_model::values, 1000));
  const auto index = scratch.path() / "model.fp16.safetensors.index.json";
  std::filesystem::rename(scratch.path() / "model.safetensors.index.json", index);
  for (const auto& path : {scratch.path(), index}) {
    BOOST_TEST(has_weights(path));
    tests::check_ok(read_spec(path));
    const auto source = tests::check_ok(weights_source::open(path, m.spec, m.table));
    check_values(**source, m.table);
  }
  std::filesystem::copy_file(index, scratch.path() / "other.safetensors.index.json");
  BOOST_TEST(contains(refusal(scratch.path(), m), "has 2 index files of weights"));
}

BOOST_AUTO_TEST_CASE(files_of_torch_save_are_read_as_safetensors_are) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  auto tensors = m.tensors();
  const std::vector<formats::tensor_to_write> first(tensors.begin(), tensors.begin() + 3),
      rest(tensors.begin() + 3, tensors.end());
  tests::check_ok(formats::write_torch_archive(scratch / "pytorch_model-1.bin", first));
  tests::check_ok(formats::write_torch_archive(scratch / "pytorch_model-2.bin", rest));
  std::string map;
  for (size_t i = 0; i < tensors.size(); ++i)
    map += (i > 0 ? ", \"" : "\"") + tensors[i].name + "\": \"pytorch_model-" + (i < 3 ? "1" : "2") + ".bin\"";
  const auto index = scratch.write("any.bin.index.json", "{\"weight_map\": {" + map + "}}");
  for (const auto& path : {scratch.path(), index}) {
    BOOST_TEST(has_weights(path));
    const auto source = tests::check_ok(weights_source::open(path, m.spec, m.table));
    check_values(**source, m.table);
  }
  const tests::scratch_folder one;
  tests::check_ok(
      formats::write_torch_archive(one / "pytorch_model.bin", tensors, {{"lm_head.weight", tensors[0].name}}));
  const auto source = tests::check_ok(weights_source::open(one.path(), m.spec, m.table));
  check_values(**source, m.table);
}

BOOST_AUTO_TEST_CASE(narrow_weights_are_rounded_once) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  tests::check_ok(write_folder(scratch.path(), m.spec, m.table, core::dtype::bf16, tiny_model::values));
  const auto source = tests::check_ok(weights_source::open(scratch.path(), m.spec, m.table));
  std::vector<float> wanted(m.table.parameters[0].numel()), got(wanted.size());
  std::vector<uint16_t> narrow(wanted.size());
  tests::check_ok(tiny_model::values(0, 0, wanted));
  auto* raw = reinterpret_cast<std::byte*>(narrow.data());
  kernels::cast(reinterpret_cast<const std::byte*>(wanted.data()), core::dtype::f32, raw, core::dtype::bf16,
                wanted.size());
  kernels::cast(raw, core::dtype::bf16, reinterpret_cast<std::byte*>(wanted.data()), core::dtype::f32, wanted.size());
  tests::check_ok((*source)->read(0, 0, got));
  BOOST_TEST(got == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(names_without_prefix_buffers_and_a_repeated_head_are_understood) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  auto tensors = m.tensors();
  for (auto& t : tensors) t.name = t.name.substr(std::string("transformer.").size());
  tensors.push_back({"h.0.attn.bias", core::dtype::f32, {1, 1, 4, 4}, {}, tiny_model::from(std::vector<float>(16))});
  tensors.push_back({"lm_head.weight", core::dtype::f32, {10, 8}, {}, tiny_model::from(std::vector<float>(80))});
  tests::check_ok(formats::write_weights_folder(scratch.path(), tensors));
  const auto source = tests::check_ok(weights_source::open(scratch.path(), m.spec, m.table));
  check_values(**source, m.table);
}

BOOST_AUTO_TEST_CASE(prefixes_that_stand_there_twice_are_understood_and_two_names_of_one_parameter_are_refused) {
  const tiny_model m;
  const tests::scratch_folder at;
  auto tensors = m.tensors();
  for (auto& t : tensors) t.name = "model." + t.name;  // such as model.transformer.wte.weight
  tests::check_ok(formats::write_weights_folder(at.path(), tensors));
  const auto source = tests::check_ok(weights_source::open(at.path(), m.spec, m.table));
  check_values(**source, m.table);
  tensors.push_back(m.tensors().front());
  tests::check_ok(formats::write_weights_folder(at.path(), tensors));
  BOOST_TEST(contains(refusal(at.path(), m), "parameter 'transformer.wte.weight' is given twice"),
             refusal(at.path(), m));
}

BOOST_AUTO_TEST_CASE(a_missing_parameter_is_refused) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  auto tensors = m.tensors();
  tensors.erase(tensors.begin() + 1);
  tests::check_ok(formats::write_weights_folder(scratch.path(), tensors));
  const std::string text = refusal(scratch.path(), m);
  BOOST_TEST(contains(text, "'transformer.wpe.weight' of shape (4, 8) is missing"), text);
}

BOOST_AUTO_TEST_CASE(a_wrong_shape_is_refused_with_both_shapes) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  auto tensors = m.tensors();
  tensors[1].shape = {8, 4};
  tests::check_ok(formats::write_weights_folder(scratch.path(), tensors));
  const std::string text = refusal(scratch.path(), m);
  BOOST_TEST(contains(text, "'transformer.wpe.weight': wanted shape (4, 8), got (8, 4)"), text);
}

BOOST_AUTO_TEST_CASE(a_tensor_that_the_model_has_no_place_for_is_refused) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  auto tensors = m.tensors();
  tensors.push_back(
      {"transformer.h.1.ln_1.weight", core::dtype::f32, {8}, {}, tiny_model::from(std::vector<float>(8))});
  tests::check_ok(formats::write_weights_folder(scratch.path(), tensors));
  const std::string text = refusal(scratch.path(), m);
  BOOST_TEST(contains(text, "'transformer.h.1.ln_1.weight' is not a parameter"), text);
}

BOOST_AUTO_TEST_CASE(integers_for_weights_are_refused) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  auto tensors = m.tensors();
  tensors[1].type = core::dtype::i32;
  tests::check_ok(formats::write_weights_folder(scratch.path(), tensors));
  BOOST_TEST(contains(refusal(scratch.path(), m), "wanted a floating type, got int32"));
}

BOOST_AUTO_TEST_CASE(weights_that_are_compressed_are_refused_with_the_key_that_takes_them) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  tests::check_ok(write_folder(scratch.path(), m.spec, m.table, core::dtype::f32, tiny_model::values));
  scratch.write("config.json",
                R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"],
      "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}}}})");
  BOOST_TEST(contains(
      refusal(scratch.path(), m),
      "its weights are compressed: set model.dequantise: true (--dequantise) to begin with the decoded values"));
}

BOOST_AUTO_TEST_CASE(a_range_beyond_the_parameter_is_refused) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  tests::check_ok(write_folder(scratch.path(), m.spec, m.table, core::dtype::f32, tiny_model::values));
  const auto source = tests::check_ok(weights_source::open(scratch.path(), m.spec, m.table));
  std::vector<float> out(2);
  BOOST_TEST(!(*source)->read(0, 79, out).has_value());
  BOOST_TEST(!(*source)->read(0, ~uint64_t{0}, out).has_value());
}

BOOST_AUTO_TEST_CASE(a_table_whose_parameters_are_not_those_of_config_json_is_not_written) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  const auto refused = [&](const core::model_table& table) {
    const auto written = write_folder(scratch.path(), m.spec, table, core::dtype::f32, tiny_model::values);
    BOOST_TEST(std::filesystem::is_empty(scratch.path()));
    return written ? std::string() : written.error().text;
  };
  auto table = m.table;
  table.parameters.pop_back();
  BOOST_TEST(contains(refused(table), "' of the model of config.json is missing"));
  table = m.table;
  table.parameters[0].shape = {11, 8};
  BOOST_TEST(contains(refused(table), "wanted shape (10, 8) as in config.json, got (11, 8)"));
  table = m.table;
  table.parameters[0].name = "other";
  BOOST_TEST(contains(refused(table), "parameter 'other' is not in the model of config.json"));
}

BOOST_AUTO_TEST_CASE(a_head_alone_is_the_embedding_that_it_is_tied_to_and_values_beyond_the_type_are_refused) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  auto tensors = m.tensors();
  for (auto& t : tensors)
    if (t.name == "transformer.wte.weight") t.name = "lm_head.weight";
  tests::check_ok(formats::write_weights_folder(scratch.path(), tensors));
  const auto source = tests::check_ok(weights_source::open(scratch.path(), m.spec, m.table));
  check_values(**source, m.table);
  const auto large = [](uint32_t, uint64_t, std::span<float> out) -> core::result<void> {
    std::fill(out.begin(), out.end(), 70000.0F);
    return {};
  };
  troupe::tests::check_failed(write_folder(scratch / "half", m.spec, m.table, core::dtype::f16, large),
                              "element 0 is 70000, which is out of range for fp16");
}

BOOST_AUTO_TEST_CASE(an_error_of_the_reader_leaves_the_folder_as_it_was) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  const auto fails = [](uint32_t p, uint64_t, std::span<float>) -> core::result<void> {
    if (p == 3) return core::fail(core::error_kind::io, "the disk went away");
    return {};
  };
  troupe::tests::check_failed(write_folder(scratch.path(), m.spec, m.table, core::dtype::f32, fails),
                              "the disk went away");
  BOOST_TEST(std::filesystem::is_empty(scratch.path()));
}

// Files of older transformers call a norm's weight and bias gamma and beta, have copies of the tied embedding and of
// its bias, and parts for other tasks.
BOOST_AUTO_TEST_CASE(older_files_of_an_encoder_are_read_and_copies_of_tied_weights_must_repeat_them) {
  tiny_model m;
  m.spec = *parse_model_spec(
      R"({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
          "intermediate_size": 8, "max_position_embeddings": 4, "vocab_size": 10})");
  m.table = make_model_table(m.spec, 1, 4, 4);
  const auto number_of = [&](const std::string& name) {
    const auto at = std::ranges::find(m.table.parameters, name, &core::parameter_info::name);
    BOOST_REQUIRE(at != m.table.parameters.end());
    return static_cast<uint32_t>(at - m.table.parameters.begin());
  };
  auto tensors = m.tensors();
  for (auto& t : tensors)
    for (const auto& [now, before] :
         {std::pair{".LayerNorm.weight", ".LayerNorm.gamma"}, {".LayerNorm.bias", ".LayerNorm.beta"}})
      if (const std::string_view end = now; t.name.ends_with(end))
        t.name = t.name.substr(0, t.name.size() - end.size()) + before;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, std::vector<float> values) {
    tensors.push_back({name, core::dtype::f32, std::move(shape), {}, tiny_model::from(std::move(values))});
  };
  std::vector<float> embedding(80), bias(10);
  tests::check_ok(tiny_model::values(number_of("bert.embeddings.word_embeddings.weight"), 0, embedding));
  tests::check_ok(tiny_model::values(number_of("cls.predictions.bias"), 0, bias));
  add("cls.predictions.decoder.weight", {10, 8}, embedding);
  add("bert.pooler.dense.weight", {8, 8}, std::vector<float>(64));
  add("cls.seq_relationship.bias", {2}, {0, 0});
  add("bert.embeddings.position_ids", {1, 4}, {0, 1, 2, 3});
  const tests::scratch_folder right, wrong;
  auto with_bias = tensors;
  with_bias.push_back({"cls.predictions.decoder.bias", core::dtype::f32, {10}, {}, tiny_model::from(bias)});
  tests::check_ok(formats::write_weights_folder(right.path(), with_bias));
  const auto source = weights_source::open(right.path(), m.spec, m.table);
  BOOST_REQUIRE_MESSAGE(source.has_value(), (source ? std::string() : source.error().text));
  check_values(**source, m.table);
  bias[3] += 1;
  tensors.push_back({"cls.predictions.decoder.bias", core::dtype::f32, {10}, {}, tiny_model::from(bias)});
  tests::check_ok(formats::write_weights_folder(wrong.path(), tensors));
  BOOST_TEST(contains(refusal(wrong.path(), m),
                      "'cls.predictions.decoder.bias': wanted the values of 'cls.predictions.bias'"));
}

BOOST_AUTO_TEST_CASE(an_unreadable_config_is_refused_with_its_path) {
  const tests::scratch_folder scratch;
  troupe::tests::check_failed(read_spec(scratch.path()), "config.json");
  std::ofstream(scratch.path() / "config.json") << R"({"model_type": "t5"})";
  const auto unknown = read_spec(scratch.path());
  BOOST_REQUIRE(!unknown.has_value());
  BOOST_TEST(contains(unknown.error().text, "config.json"));
  BOOST_TEST(contains(unknown.error().text, "t5"));
}

BOOST_AUTO_TEST_CASE(weights_that_are_not_read_are_refused_and_not_drawn_anew) {
  const tiny_model m;
  for (const char* name : {"tf_model.h5", "flax_model.msgpack", "consolidated.00.pth", "last.ckpt", "model.gguf",
                           "adapter_model.bin", "pytorch_model_fsdp_0/__0_0.distcp"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const tests::scratch_folder scratch;
    scratch.write("config.json", tiny);
    BOOST_TEST(!has_weights(scratch.path()));
    scratch.write(name, "x");
    BOOST_TEST(has_weights(scratch.path()), name);
    const auto text = refusal(scratch.path(), m);
    const bool is_named = contains(text, "is not a checkpoint: it holds") || contains(text, "holds a PEFT adapter");
    BOOST_TEST(is_named, text);
    BOOST_TEST(contains(text, "to start from scratch, set model.path to a folder with only config.json"), text);
  }
}

BOOST_AUTO_TEST_CASE(weights_in_a_trainers_checkpoints_below_are_named) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  scratch.write("config.json", tiny);
  const auto newest = scratch / "checkpoint-20";
  tests::check_ok(write_folder(newest, m.spec, m.table, core::dtype::f32, tiny_model::values));
  BOOST_TEST(has_weights(scratch.path()));
  BOOST_TEST(contains(refusal(scratch.path(), m),
                      "contains checkpoints but no weights of its own: wanted one of them, such "
                      "as '" +
                          newest.string() + "'"),
             refusal(scratch.path(), m));
}

BOOST_AUTO_TEST_CASE(a_value_that_fp32_does_not_hold_is_refused_with_its_place) {
  const tiny_model m;
  const tests::scratch_folder scratch;
  auto tensors = m.tensors();
  std::vector<double> wide(m.table.parameters[0].numel(), 0.5);
  wide[3] = 1e300;
  const auto bytes = [wide](uint64_t offset, std::span<std::byte> out) -> core::result<void> {
    std::copy_n(std::as_bytes(std::span(wide)).begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  };
  tensors[0] = {m.table.parameters[0].name, core::dtype::f64, m.table.parameters[0].shape, {}, bytes};
  tests::check_ok(formats::write_weights_folder(scratch.path(), tensors, UINT64_MAX));
  const auto source = tests::check_ok(weights_source::open(scratch.path(), m.spec, m.table));
  std::vector<float> some(2);
  tests::check_ok((*source)->read(0, 4, some));
  const auto refused = (*source)->read(0, 2, some);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(contains(refused.error().text, m.table.parameters[0].name + ": element 3"), refused.error().text);
  BOOST_TEST(contains(refused.error().text, "is 1e+300, which is out of range for fp32"), refused.error().text);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
