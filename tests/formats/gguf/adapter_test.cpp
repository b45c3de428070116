// Tests GGUF files with a LoRA adapter: what is written reads back the same, in the names and the order of rows that
// llama.cpp has for the base's weights, gives the merged weights of the folder, and is refused by key or tensor.
#include "formats/gguf/adapter.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/convert/open_source.hpp"
#include "families/all_families.hpp"
#include "formats/gguf/header.hpp"
#include "formats/gguf/writer.hpp"
#include "formats/peft/merged_adapter.hpp"
#include "formats/source/source_reader.hpp"
#include "tests/check_ok.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::formats::tests {
BOOST_AUTO_TEST_SUITE(adapter)

namespace {

using troupe::tests::check_error;
using troupe::tests::check_failed;
using troupe::tests::check_ok;
using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests" / "models" / "fixtures";

/// A base model of the fixtures, whose adapter peft wrote.
struct base_model {
  const char* name;
  uint32_t head_width;
};
constexpr base_model bases[] = {{"llama", 6}, {"gpt2", 8}, {"phi3", 8}};

low_rank_adapter adapter_of(const base_model& base) {
  const auto folder = check_ok(peft_adapter::open(fixtures / (std::string("lora_") + base.name)));
  return *check_ok(matrices_of(**folder));
}

/// Returns an adapter of one layer, with elements that count from 0.
low_rank_adapter numbered(const std::string& layer, uint64_t rank, uint64_t in, uint64_t out) {
  low_rank_layer l{.name = layer, .in = in, .out = out, .rank = rank, .scale = 1, .a = {}, .b = {}};
  l.a.resize(rank * in);
  l.b.resize(out * rank);
  std::iota(l.a.begin(), l.a.end(), 0.0F);
  std::iota(l.b.begin(), l.b.end(), 0.0F);
  return {.place = "numbered", .base = {}, .layers = {std::move(l)}};
}

std::vector<float> stored(const fs::path& path, const std::string& name) {
  const auto file = check_ok(core::source_file::open(path));
  const auto header = check_ok(read_gguf_header(*file));
  const auto at = std::ranges::find(header->tensors, name, &gguf_tensor::name);
  BOOST_REQUIRE_MESSAGE(at != header->tensors.end(), name);
  std::vector<float> out(at->elements());
  check_ok(file->read(header->data_begin + at->offset_bytes, std::as_writable_bytes(std::span(out))));
  return out;
}

/// Writes a file with these keys, and matrices of zeros: names and extents.
void write_file(const fs::path& path, const std::vector<std::pair<std::string, gguf_value>>& keys,
                const std::vector<std::pair<std::string, std::vector<uint64_t>>>& matrices) {
  gguf_metadata all;
  for (const auto& [key, value] : keys) all.set(key, value);
  std::vector<gguf_tensor> tensors;
  uint64_t bytes = 0;
  for (const auto& [name, extents] : matrices) {
    tensors.push_back({name, gguf_type::f32, extents, 0});
    bytes += tensors.back().bytes();
  }
  auto out = check_ok(gguf_writer::create(path, all, std::move(tensors)));
  check_ok(out->write(std::vector<std::byte>(bytes)));
  check_ok(out->commit());
}

gguf_value text(const char* x) { return gguf_value::of(std::string(x)); }

std::vector<float> values_of(const tensor_source& s, const tensor_entry& t) {
  std::vector<float> out(core::numel_of(t.shape));
  source_reader reader(s);
  check_ok(reader.read_as(core::dtype::f32, t, 0, out.size(), std::as_writable_bytes(std::span(out))));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_reads_back_the_same) {
  const scratch_folder at;
  for (const base_model& base : bases) BOOST_TEST_CONTEXT(base.name) {
      const auto& family = *families::find(base.name);
      const low_rank_adapter from = adapter_of(base);
      const double alpha = from.layers.front().scale * static_cast<double>(from.layers.front().rank);
      const auto path = at / "adapter.gguf";
      const uint64_t bytes = *check_ok(write_gguf_adapter(path, from, family, base.head_width, {.alpha = alpha}));
      BOOST_TEST(bytes == fs::file_size(path));
      auto back = *check_ok(read_gguf_adapter(path, family, base.head_width));
      BOOST_TEST_REQUIRE(back.layers.size() == from.layers.size());
      for (const low_rank_layer& wanted : from.layers) BOOST_TEST_CONTEXT(wanted.name) {
          const auto got = std::ranges::find(back.layers, wanted.name, &low_rank_layer::name);
          BOOST_TEST_REQUIRE((got != back.layers.end()));
          BOOST_TEST(got->rank == wanted.rank);
          BOOST_TEST(got->scale == wanted.scale, boost::test_tools::tolerance(1e-6));
          BOOST_TEST((got->a == wanted.a));
          BOOST_TEST((got->b == wanted.b));
        }
    }
}

BOOST_AUTO_TEST_CASE(keys_and_names_are_those_that_llama_cpp_reads) {
  const scratch_folder at;
  const low_rank_adapter from = adapter_of(bases[0]);
  check_ok(write_gguf_adapter(at / "a.gguf", from, *families::find("llama"), bases[0].head_width, {.alpha = 7}));
  const auto file = check_ok(core::source_file::open(at / "a.gguf"));
  const auto header = check_ok(read_gguf_header(*file));
  BOOST_TEST(header->metadata.text("general.type") == "adapter");
  BOOST_TEST(header->metadata.text("general.architecture") == "llama");
  BOOST_TEST(header->metadata.text("adapter.type") == "lora");
  BOOST_TEST(header->metadata.number("adapter.lora.alpha").value_or(0) == 7);
  const auto extents_of = [&](const std::string& name) {
    const auto t = std::ranges::find(header->tensors, name, &gguf_tensor::name);
    return t == header->tensors.end() ? std::vector<uint64_t>() : t->extents;
  };
  BOOST_TEST((extents_of("blk.1.attn_k.weight.lora_a") == std::vector<uint64_t>{24, 3}));
  BOOST_TEST((extents_of("blk.1.attn_k.weight.lora_b") == std::vector<uint64_t>{3, 12}));
}

BOOST_AUTO_TEST_CASE(rows_of_heads_have_the_order_of_the_weight_in_gguf_files) {
  const scratch_folder at;
  // Two heads of four elements: the file has the two elements of each rotated pair side by side.
  const auto rotary = numbered("model.layers.0.self_attn.q_proj", 1, 2, 8);
  check_ok(write_gguf_adapter(at / "r.gguf", rotary, *families::find("llama"), 4, {.alpha = 1}));
  BOOST_TEST((stored(at / "r.gguf", "blk.0.attn_q.weight.lora_b") == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  BOOST_TEST((stored(at / "r.gguf", "blk.0.attn_q.weight.lora_a") == std::vector<float>{0, 1}));
  // Two heads of two elements: the file has all queries, then all keys, then all values.
  const auto by_head = numbered("gpt_neox.layers.0.attention.query_key_value", 1, 2, 12);
  const auto& neox = *families::find("gpt_neox");
  check_ok(write_gguf_adapter(at / "n.gguf", by_head, neox, 2, {.alpha = 1}));
  BOOST_TEST((stored(at / "n.gguf", "blk.0.attn_qkv.weight.lora_b") ==
              std::vector<float>{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
  BOOST_TEST((check_ok(read_gguf_adapter(at / "n.gguf", neox, 2))->layers.front().b == by_head.layers.front().b));
  check_failed(write_gguf_adapter(at / "w.gguf", rotary, *families::find("llama"), 3, {.alpha = 1}),
               core::error_kind::mismatch, "8 outputs, wanted whole heads of 3 elements");
}

BOOST_AUTO_TEST_CASE(a_base_with_the_file_in_its_weights_is_the_base_with_the_folder_in_them) {
  const scratch_folder at;
  const base_model& base = bases[2];  // its factor, 1, is exact
  const auto& family = *families::find(base.name);
  const auto from = adapter_of(base);
  check_ok(write_gguf_adapter(at / "a.gguf", from, family, base.head_width, {.alpha = 2}));
  const auto opened = [&] { return *check_ok(checkpoint::open_source(fixtures / base.name)); };
  const auto wanted = *check_ok(merged_with(opened(), from, false));
  const auto got =
      *check_ok(merged_with(opened(), *check_ok(read_gguf_adapter(at / "a.gguf", family, base.head_width)), false));
  BOOST_TEST_REQUIRE(got.tensors.size() == wanted.tensors.size());
  for (size_t i = 0; i < got.tensors.size(); ++i) {
    BOOST_TEST(got.tensors[i].name == wanted.tensors[i].name);
    BOOST_TEST((values_of(got, got.tensors[i]) == values_of(wanted, wanted.tensors[i])), wanted.tensors[i].name);
  }
}

BOOST_AUTO_TEST_CASE(half_types_are_read_and_values_beyond_them_refused) {
  const scratch_folder at;
  auto from = numbered("model.layers.0.self_attn.o_proj", 2, 4, 4);
  const auto& llama = *families::find("llama");
  for (const gguf_type type : {gguf_type::f16, gguf_type::bf16}) {
    check_ok(write_gguf_adapter(at / "h.gguf", from, llama, 4, {.alpha = 2, .type = type}));
    BOOST_TEST((check_ok(read_gguf_adapter(at / "h.gguf", llama, 4))->layers.front().b == from.layers.front().b));
  }
  from.layers.front().b[3] = 70000;
  check_failed(write_gguf_adapter(at / "h.gguf", from, llama, 4, {.alpha = 2, .type = gguf_type::f16}),
               core::error_kind::numeric, "'blk.0.attn_output.weight.lora_b': element 3 is 70000");
}

BOOST_AUTO_TEST_CASE(files_that_are_no_adapter_of_the_base_are_refused) {
  const scratch_folder at;
  const auto path = at / "a.gguf";
  const auto& llama = *families::find("llama");
  const std::vector<std::pair<std::string, gguf_value>> keys = {
      {"general.architecture", text("llama")}, {"general.type", text("adapter")}, {"adapter.type", text("lora")}};
  const std::string a = "blk.0.attn_v.weight.lora_a", b = "blk.0.attn_v.weight.lora_b";
  const auto refused = [&](auto change, const std::string& words) {
    auto changed = keys;
    std::vector<std::pair<std::string, std::vector<uint64_t>>> matrices = {{a, {4, 2}}, {b, {2, 6}}};
    change(changed, matrices);
    write_file(path, changed, matrices);
    check_failed(read_gguf_adapter(path, llama, 2), words);
  };
  write_file(path, keys, {{a, {4, 2}}, {b, {2, 6}}});
  const auto plain = *check_ok(read_gguf_adapter(path, llama, 2));
  BOOST_TEST(plain.layers.front().scale == 1);  // llama.cpp's factor without an alpha
  BOOST_TEST(plain.layers.front().name == "model.layers.0.self_attn.v_proj");
  refused([](auto& k, auto&) { k[1].second = text("model"); }, "key 'general.type': wanted \"adapter\", got \"model\"");
  refused([](auto& k, auto&) { k[2].second = text("control"); }, "key 'adapter.type': wanted \"lora\"");
  refused([](auto& k, auto&) { k[0].second = text("gpt2"); }, "of architecture 'gpt2', and this base's is 'llama'");
  const auto endless = gguf_value::of(std::numeric_limits<float>::infinity());
  refused([&](auto& k, auto&) { k.emplace_back("adapter.lora.alpha", endless); },
          "key 'adapter.lora.alpha': wanted a finite number, got inf");
  refused(
      [](auto& k, auto&) {
        const std::vector<int32_t> tokens = {3};
        k.emplace_back("adapter.alora.invocation_tokens", gguf_value::of(std::span<const int32_t>(tokens)));
      },
      "acts only after these tokens");
  refused([](auto&, auto& m) { m.pop_back(); }, "'blk.0.attn_v.weight' has only one of its two matrices");
  refused([](auto&, auto& m) { m[1].second = {3, 6}; }, "has rows of 3 elements, and the rank of");
  refused([](auto&, auto& m) { m[0].first = "blk.0.attn_norm.weight"; }, "is not one of the two matrices");
  refused([](auto&, auto& m) { m[0].first = "token_embd.weight.lora_a"; }, "of the embedding");
  refused(
      [](auto&, auto& m) {
        m[0].first = "blk.0.wrong.weight.lora_a";
        m[1].first = "blk.0.wrong.weight.lora_b";
      },
      "belongs to no weight of architecture 'llama'");
  check_failed(write_gguf_adapter(path, numbered("model.layers.0.wrong", 1, 2, 2), llama, 2, {.alpha = 1}),
               core::error_kind::mismatch, "layer 'model.layers.0.wrong': it has no name in GGUF files");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::formats::tests
