// Checkpoints written for other degrees and read again: whatever the degrees, every tensor keeps its bytes.
#include "checkpoint/reshape.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/deepspeed_source.hpp"
#include "checkpoint/published_patterns.hpp"
#include "checkpoint/reshape_plan.hpp"
#include "checkpoint/reshape_rules.hpp"
#include "checkpoint/source_reader.hpp"
#include "checkpoint/torch_archive.hpp"
#include "core/tensor_view.hpp"
#include "tests/checkpoint/tensors.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

using shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

/// fp32 masters, two moments of each where asked, in one file of noise.
tensor_source made(const scratch_folder& at, const shapes& parameters, bool has_optimizer = true) {
  tensor_source s;
  s.folder = at / "";
  s.format = "made";
  uint64_t offset = 0;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape, tensor_kind kind,
                       const std::string& moment) {
    const uint64_t count = core::numel_of(shape);
    s.tensors.push_back({name, kind, moment, core::dtype::f32, shape, {{0, 0, count, offset, {}}}});
    offset += count * 4;
  };
  for (const auto& [name, shape] : parameters) {
    s.parameter_order.push_back(name);
    add(name, shape, has_optimizer ? tensor_kind::master : tensor_kind::weight, "");
    if (!has_optimizer) continue;
    add(name, shape, tensor_kind::moment, "exp_avg");
    add(name, shape, tensor_kind::moment, "exp_avg_sq");
  }
  const auto bytes = noise(offset, parameters.size());
  std::ofstream(at / "data", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(offset));
  s.files = {{at / "data", offset}};
  s.run.steps = s.run.applied_updates = 5;
  s.run.client_state = R"({"note": [1, {"a": null}]})";
  check_ok(complete(s));
  return s;
}

using contents = std::map<std::string, std::pair<std::vector<int64_t>, std::vector<std::byte>>>;

/// Every tensor's bytes by its name and moment; masters and weights are one.
contents contents_of(const tensor_source& s) {
  contents out;
  source_reader reader(s);
  for (const auto& t : s.tensors) {
    std::vector<std::byte> bytes(core::numel_of(t.shape) * core::size_of(t.type));
    check_ok(reader.read(t, 0, core::numel_of(t.shape), bytes));
    out[t.name + "/" + t.moment] = {t.shape, std::move(bytes)};
  }
  return out;
}

void check_same(const contents& got, const contents& wanted, const std::string& where) {
  BOOST_TEST(got.size() == wanted.size(), where);
  for (const auto& [name, value] : wanted) {
    const auto at = got.find(name);
    BOOST_REQUIRE_MESSAGE(at != got.end(), where << " lacks " << name);
    BOOST_TEST((at->second == value), where << ": " << name);
  }
}

std::string shown(const parallel_degrees& d) { return fmt::format("pp{} tp{} dp{}", d.pipeline, d.tensor, d.data); }

shapes megatron_layer(const std::string& prefix) {
  return {{prefix + "input_layernorm.weight", {8}},
          {prefix + "self_attention.query_key_value.weight", {24, 8}},
          {prefix + "self_attention.query_key_value.bias", {24}},
          {prefix + "self_attention.dense.weight", {8, 8}},
          {prefix + "mlp.dense_h_to_4h.weight", {32, 8}},
          {prefix + "mlp.dense_h_to_4h.bias", {32}},
          {prefix + "mlp.dense_4h_to_h.weight", {8, 32}}};
}

/// A pipeline's own names: layer 1 the embedding, 3 to 6 transformer layers, 8 the final norm.
shapes megatron_pipeline() {
  shapes out{{"1.word_embeddings.weight", {12, 8}}, {"1.position_embeddings.weight", {5, 8}}};
  for (int layer = 3; layer < 7; ++layer)
    for (auto& p : megatron_layer(fmt::format("{}.", layer))) out.push_back(std::move(p));
  out.emplace_back("8.weight", std::vector<int64_t>{8});
  return out;
}

shapes gpt2() {
  shapes out{{"wte.weight", {13, 8}}, {"wpe.weight", {4, 8}}};
  for (int i = 0; i < 3; ++i) {
    const auto h = fmt::format("h.{}.", i);
    out.insert(out.end(), {{h + "ln_1.weight", {8}},
                           {h + "attn.c_attn.weight", {8, 24}},
                           {h + "attn.c_attn.bias", {24}},
                           {h + "attn.c_proj.weight", {8, 8}},
                           {h + "mlp.c_fc.weight", {8, 32}},
                           {h + "mlp.c_fc.bias", {32}},
                           {h + "mlp.c_proj.weight", {32, 8}}});
  }
  out.emplace_back("ln_f.weight", std::vector<int64_t>{8});
  return out;
}

reshape_options to(const parallel_degrees& d, uint32_t stage = 2) {
  reshape_options o;
  o.to = d;
  o.write.stage = stage;
  return o;
}

const parallel_degrees degrees[] = {{1, 1, 1}, {1, 4, 2}, {2, 2, 2}, {4, 1, 1}, {3, 2, 1}, {1, 2, 3}, {1, 1, 1}};

/// From degrees to degrees, each from the folder before, at changing stages.
void chain(const tensor_source& first, const scratch_folder& at, std::initializer_list<uint32_t> stages) {
  const auto wanted = contents_of(first);
  tensor_source from = first;
  int number = 0;
  for (const uint32_t stage : stages)
    for (const auto& d : degrees) {
      const fs::path root = at / fmt::format("out{}", number++);
      const auto report = reshape(from, root, to(d, stage));
      BOOST_REQUIRE_MESSAGE(report.has_value(), shown(d) << ": " << (report ? "" : report.error().text));
      BOOST_TEST(files_in(report->folder) == report->files);
      auto back = read_deepspeed_source(root);
      BOOST_REQUIRE_MESSAGE(back.has_value(), shown(d) << ": " << (back ? "" : back.error().text));
      if (d.pipeline == 1) check_same(contents_of(*back), wanted, shown(d));
      BOOST_TEST(back->run.steps.value_or(0) == 5U);
      from = std::move(*back);
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reshape)

BOOST_AUTO_TEST_CASE(a_megatron_pipeline_keeps_its_tensors_at_all_degrees) {
  const scratch_folder at;
  chain(made(at, megatron_pipeline()), at, {1, 2, 3});
}

BOOST_AUTO_TEST_CASE(a_model_that_becomes_a_pipeline_gets_its_names_back) {
  const scratch_folder at;
  shapes parameters{{"embedding.word_embeddings.weight", {12, 8}}};
  for (int layer = 0; layer < 4; ++layer)
    for (auto& p : megatron_layer(fmt::format("transformer.layers.{}.", layer))) parameters.push_back(std::move(p));
  parameters.emplace_back("transformer.final_layernorm.weight", std::vector<int64_t>{8});
  chain(made(at, parameters), at, {2});
}

BOOST_AUTO_TEST_CASE(gpt_2_is_cut_by_its_names_and_says_how_it_goes_together) {
  const scratch_folder at;
  chain(made(at, gpt2()), at, {1});
}

BOOST_AUTO_TEST_CASE(weights_alone_need_model_files_alone) {
  const scratch_folder at;
  chain(made(at, megatron_pipeline(), false), at, {2});
  BOOST_TEST(files_in(at / "out2/global_step5") == 4U + 2 * 6);
}

BOOST_AUTO_TEST_SUITE_END()
