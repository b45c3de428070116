// Tests GGUF files as a source of weights (blocks as fp32, families under their own names and in their own order) and
// as a target, whose F32 file has the bits of the source.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <limits>

#include "checkpoint/convert/gguf_export.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "core/tensor_view.hpp"
#include "formats/gguf/rope_divisors.hpp"
#include "formats/gguf/source.hpp"
#include "formats/report/diff.hpp"
#include "formats/report/inspect.hpp"
#include "formats/report/verify.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/source_reader.hpp"
#include "tests/counted_memory.hpp"
#include "tests/formats/mutations.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::formats::tests {
BOOST_AUTO_TEST_SUITE(gguf_source)

namespace {

using troupe::tests::check_failed;
using troupe::tests::check_ok;
using troupe::tests::owned_tensor;
using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

const fs::path peer_file = (std::string(troupe::places::source_dir) + "/tests/formats/fixtures/gguf/types.gguf");

std::vector<float> values_of(const tensor_source& s, std::string_view name) {
  const auto* t = find_tensor(s, name, tensor_kind::weight);
  BOOST_REQUIRE(t != nullptr);
  std::vector<float> out(core::numel_of(t->shape));
  source_reader reader(s);
  check_ok(reader.read_as(core::dtype::f32, *t, 0, out.size(), std::as_writable_bytes(std::span(out))));
  // Reading the tensor in pieces of irregular sizes must return equal values.
  std::vector<float> again(out.size());
  for (size_t at = 0; at < out.size();) {
    const size_t n = std::min<size_t>(1 + at % 77, out.size() - at);
    check_ok(reader.read_as(core::dtype::f32, *t, at, n, std::as_writable_bytes(std::span(again).subspan(at, n))));
    at += n;
  }
  BOOST_CHECK(std::memcmp(out.data(), again.data(), out.size() * sizeof(float)) == 0);
  return out;
}

/// Returns a tensor of small numbers that are all different.
owned_tensor numbered(std::string name, std::vector<int64_t> shape, core::dtype type = core::dtype::f32) {
  owned_tensor out(std::move(name), type, std::move(shape));
  const size_t width = core::size_of(type), count = out.data.size() / width;
  const auto start = static_cast<float>(std::hash<std::string>()(out.name) % 1000);
  for (size_t i = 0; i < count; ++i) {
    const float x = (start + static_cast<float>(i % 251) - 125.0F + static_cast<float>(i) * 0.001F) * 0.01F;
    const auto bits = std::bit_cast<uint32_t>(x);
    if (width == 4)
      std::memcpy(&out.data[i * width], &bits, 4);
    else
      // Copies the upper 16 bits, which are the number in bf16.
      std::memcpy(&out.data[i * width], reinterpret_cast<const char*>(&bits) + 2, 2);
  }
  return out;
}

struct model_files {
  gguf_model sizes;
  std::vector<owned_tensor> tensors;
};

/// Returns a GPT-2 model of two blocks.
model_files gpt2_of(uint32_t width, uint32_t inner, uint32_t vocabulary) {
  model_files out{.sizes = {.architecture = "gpt2",
                            .blocks = 2,
                            .width = width,
                            .inner = inner,
                            .heads = 4,
                            .kv_heads = 4,
                            .head_width = width / 4,
                            .positions = 16,
                            .vocabulary = vocabulary,
                            .norm_epsilon = 1e-5,
                            .tied = true,
                            .attention_bias = true},
                  .tensors = {}};
  auto& t = out.tensors;
  const int64_t w = width, n = inner;
  t.push_back(numbered("transformer.wte.weight", {int64_t{vocabulary}, w}));
  t.push_back(numbered("transformer.wpe.weight", {16, w}));
  for (const char* part : {"weight", "bias"}) {
    const std::string p(part);
    const auto matrix = [&](int64_t in, int64_t outputs) {
      return p == "weight" ? std::vector<int64_t>{in, outputs} : std::vector<int64_t>{outputs};
    };
    t.push_back(numbered("transformer.ln_f." + p, {w}));
    for (const char* block : {"transformer.h.0.", "transformer.h.1."}) {
      t.push_back(numbered(block + ("ln_1." + p), {w}));
      t.push_back(numbered(block + ("attn.c_attn." + p), matrix(w, 3 * w)));
      t.push_back(numbered(block + ("attn.c_proj." + p), matrix(w, w)));
      t.push_back(numbered(block + ("ln_2." + p), {w}));
      t.push_back(numbered(block + ("mlp.c_fc." + p), matrix(w, n)));
      t.push_back(numbered(block + ("mlp.c_proj." + p), matrix(n, w)));
    }
  }
  return out;
}
model_files small_gpt2() { return gpt2_of(64, 96, 40); }

model_files small_llama(core::dtype type = core::dtype::f32) {
  model_files out{.sizes = {.architecture = "llama",
                            .blocks = 1,
                            .width = 64,
                            .inner = 96,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_width = 32,
                            .positions = 16,
                            .vocabulary = 40,
                            .norm_epsilon = 1e-6,
                            .rope_theta = 10000,
                            .attention_bias = true},
                  .tensors = {}};
  const auto add = [&](const char* name, std::vector<int64_t> shape) {
    out.tensors.push_back(numbered(name, std::move(shape), type));
  };
  add("model.embed_tokens.weight", {40, 64});
  add("lm_head.weight", {40, 64});
  add("model.norm.weight", {64});
  add("model.layers.0.input_layernorm.weight", {64});
  add("model.layers.0.post_attention_layernorm.weight", {64});
  add("model.layers.0.self_attn.q_proj.weight", {128, 64});
  add("model.layers.0.self_attn.q_proj.bias", {128});
  add("model.layers.0.self_attn.k_proj.weight", {64, 64});
  add("model.layers.0.self_attn.k_proj.bias", {64});
  add("model.layers.0.self_attn.v_proj.weight", {64, 64});
  add("model.layers.0.self_attn.v_proj.bias", {64});
  add("model.layers.0.self_attn.o_proj.weight", {64, 128});
  add("model.layers.0.self_attn.o_proj.bias", {64});
  add("model.layers.0.mlp.gate_proj.weight", {96, 64});
  add("model.layers.0.mlp.up_proj.weight", {96, 64});
  add("model.layers.0.mlp.down_proj.weight", {64, 96});
  return out;
}

tensor_source opened(const scratch_folder& folder, const model_files& m) {
  const auto at = folder / "weights";
  check_ok(write_weights_folder(at, troupe::tests::all_to_write(m.tensors), uint64_t{1} << 30U));
  auto out = check_ok(checkpoint::open_source(at));
  return std::move(*out);
}

checkpoint::gguf_export_options options_for(const model_files& m, const fs::path& out, const char* type = "f32") {
  return {.out = out, .type = *mixture_from(type), .model = m.sizes, .more = {}};
}

tensor_source exported(const tensor_source& from, const checkpoint::gguf_export_options& options) {
  const auto needed = check_ok(checkpoint::gguf_bytes(from, options));
  const auto report = check_ok(checkpoint::export_gguf(from, options));
  BOOST_CHECK_LE(*needed, report->bytes);
  BOOST_CHECK_EQUAL(fs::file_size(options.out), report->bytes);
  auto out = check_ok(checkpoint::open_source(options.out));
  return std::move(*out);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_type_is_read_as_numbers) {
  const auto s = check_ok(checkpoint::open_source(peer_file));
  BOOST_CHECK_EQUAL(s->format, "GGUF");
  BOOST_CHECK_EQUAL(shown_place(*s), fs::path(peer_file).string());  // messages name the file itself, not its folder
  const auto exact = values_of(*s, "F32");
  BOOST_CHECK_EQUAL(values_of(*s, "line").size(), 256U);
  for (const auto& [name, tolerance] :
       {std::pair{"F16", 2e-3F}, std::pair{"BF16", 1e-2F}, std::pair{"Q8_0", 1e-2F}, std::pair{"Q4_0", 0.15F},
        std::pair{"Q4_1", 0.15F}, std::pair{"Q5_0", 0.1F}, std::pair{"Q5_1", 0.1F}, std::pair{"Q4_K", 0.15F},
        std::pair{"Q5_K", 0.1F}, std::pair{"Q6_K", 0.05F}}) {
    const auto got = values_of(*s, name);
    BOOST_REQUIRE_EQUAL(got.size(), exact.size());
    float largest = 0;
    for (size_t i = 0; i < 256; ++i) largest = std::max(largest, std::abs(exact[i]));
    for (size_t i = 0; i < 256; ++i)
      BOOST_TEST(std::abs(got[i] - exact[i]) <= tolerance * largest, name << " element " << i);
  }
  BOOST_CHECK_EQUAL(s->stored_as.at("Q4_K"), "q4_k");
  BOOST_TEST(inspect_text(*s).find("weight fp32 from q4_0") != std::string::npos);
  const auto report = check_ok(verify_source(storage::real_files(), *s));
  BOOST_CHECK_EQUAL(report->damages, 0U);
}

BOOST_AUTO_TEST_CASE(a_scale_that_is_not_finite_is_refused_with_tensor_and_byte) {
  const scratch_folder folder;
  const auto copy = folder / "copy.gguf";
  fs::copy_file(peer_file, copy);
  const auto file = check_ok(core::source_file::open(copy));
  const auto header = check_ok(read_gguf_header(*file));
  for (const auto& t : header->tensors) {
    if (t.name != "Q8_0" && t.name != "Q4_K") continue;
    std::fstream out(copy, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(header->data_begin + t.offset_bytes + (t.name == "Q8_0" ? 34 * 9 : 0)));
    out.write("\x00\x7E", 2);  // writes NaN in fp16
  }
  const auto s = check_ok(checkpoint::open_source(copy));
  source_reader reader(*s);
  std::vector<std::byte> out(2048 * sizeof(float));
  const auto* t = find_tensor(*s, "Q8_0", tensor_kind::weight);
  check_ok(reader.read(*t, 0, 32, out));
  const auto read = reader.read(*t, 0, 2048, out);
  BOOST_REQUIRE(!read);
  BOOST_TEST(read.error().text.find("tensor 'Q8_0': the scale of the block at byte") != std::string::npos);
  const auto report = check_ok(verify_source(storage::real_files(), *s));
  BOOST_CHECK_EQUAL(report->damages, 2U);
  fs::resize_file(copy, fs::file_size(copy) - 1);
  source_reader later(*s);
  BOOST_CHECK(!later.read(*t, 0, 32, out));
}

BOOST_AUTO_TEST_CASE(an_f32_file_has_the_bits_that_went_in) {
  for (const auto& model : {small_gpt2(), small_llama(), small_llama(core::dtype::bf16)}) {
    const scratch_folder folder;
    const auto from = opened(folder, model);
    const bool halves = model.tensors.front().type == core::dtype::bf16;
    const auto back = exported(from, options_for(model, folder / "out.gguf", halves ? "bf16" : "f32"));
    diff_options how;
    if (halves) how.tolerance = 0.0;  // the file stores norms and biases in fp32, so only values are compared
    const auto report = check_ok(diff_sources(storage::real_files(), from, back, how));
    BOOST_CHECK_EQUAL(report->tensors, model.tensors.size());
    for (const auto& d : report->differences) BOOST_ERROR(d.text);
    // Writing with the description that the file contains must result in an equal file.
    const auto header = check_ok(core::source_file::open(folder / "out.gguf"));
    const auto read = check_ok(read_gguf_header(*header));
    const auto sizes = check_ok(model_of(*read));
    BOOST_REQUIRE(sizes->has_value());
    BOOST_CHECK_EQUAL((*sizes)->head_width, model.sizes.head_width);
    BOOST_CHECK_EQUAL((*sizes)->kv_heads, model.sizes.kv_heads);
    BOOST_CHECK_EQUAL((*sizes)->norm_epsilon, model.sizes.norm_epsilon);
    BOOST_CHECK_EQUAL((*sizes)->tied, model.sizes.tied);
    BOOST_CHECK_EQUAL((*sizes)->attention_bias, model.sizes.attention_bias);
  }
}

BOOST_AUTO_TEST_CASE(divisors_of_rotary_frequencies_are_llama_3s_keys_again_or_are_refused) {
  const scratch_folder folder;
  auto model = small_llama();
  const auto from = opened(folder, model);
  const llama3_scaling scaling{4, 1, 4, 128};
  for (const double d : llama3_divisors(scaling, model.sizes.rope_theta, model.sizes.head_width / 2))
    model.sizes.rope_divisors.push_back(static_cast<float>(d));
  const auto keys = [&] { return exported(from, options_for(model, folder / "out.gguf")).run.model; };
  for (const uint32_t original : {0U, 128U}) {
    model.sizes.rope_original_positions = original;
    const auto text = keys();
    for (const char* part : {R"("rope_type": "llama3")", R"("factor": 4.0)", R"("low_freq_factor": 1.0)",
                             R"("high_freq_factor": 4.0)", R"("original_max_position_embeddings": 128)"})
      BOOST_TEST(text.find(part) != std::string::npos, text);
    BOOST_TEST(text.find("rope_freqs") == std::string::npos, text);
  }
  model.sizes.rope_divisors[3] = 3;
  const auto text = keys();
  BOOST_TEST(text.find(R"("llama.rope_freqs.weight": "a tensor")") != std::string::npos, text);
  BOOST_TEST(text.find("llama3") == std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(factors_of_longrope_and_of_cosines_are_read_back) {
  const scratch_folder folder;
  auto model = small_llama();
  const auto from = opened(folder, model);
  const auto keys = [&] { return exported(from, options_for(model, folder / "out.gguf")).run.model; };
  const auto check_has = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) BOOST_TEST(text.find(part) != std::string::npos, part << " in " << text);
  };
  model.sizes.rope_scaling = "longrope";
  model.sizes.rope_original_positions = 8;
  model.sizes.rope_attention_factor = 1.3;
  model.sizes.rope_short_divisors.assign(16, 1.25F);
  model.sizes.rope_long_divisors.assign(16, 4);
  auto text = keys();
  check_has(text, {R"("rope_type": "longrope")", R"("attention_factor": 1.3)", "1.25,", "4.0,",
                   R"("original_max_position_embeddings": 8)"});
  BOOST_TEST(text.find("a tensor") == std::string::npos, text);
  model.sizes.rope_short_divisors.pop_back();
  check_has(keys(), {R"("llama.rope_factors_short.weight": "a tensor")", R"("llama.rope.scaling.type": "longrope")"});
  model.sizes.rope_short_divisors.clear();
  model.sizes.rope_long_divisors.clear();
  model.sizes.rope_scaling = "yarn";
  model.sizes.rope_factor = 4;
  model.sizes.rope_attention_factor = 1.3 / (1 + 0.1 * std::log(4));
  check_has(keys(), {R"("rope_type": "yarn")", R"("attention_factor": 1.3)", R"("factor": 4.0)"});
}

BOOST_AUTO_TEST_CASE(a_part_of_a_model_and_an_adapter_are_refused_as_such) {
  const scratch_folder folder;
  const auto model = small_llama();
  const auto from = opened(folder, model);
  const auto refusal = [&](const gguf_metadata& keys) {
    auto options = options_for(model, folder / "out.gguf");
    for (const auto& [key, value] : keys.entries) options.more.set(key, value);
    check_ok(checkpoint::export_gguf(from, options));
    const auto s = checkpoint::open_source(folder / "out.gguf");
    return s ? std::string() : s.error().text;
  };
  gguf_metadata keys;
  keys.set("split.no", gguf_value::of(uint32_t{0}));
  keys.set("split.count", gguf_value::of(uint32_t{1}));
  BOOST_TEST(refusal(keys) == "");
  keys.set("split.count", gguf_value::of(uint32_t{3}));
  BOOST_TEST(
      refusal(keys).find("out.gguf': it is part 1 of 3 of a model: join them first, by `llama-gguf-split --merge`") !=
      std::string::npos);
  gguf_metadata adapter;
  adapter.set("general.type", gguf_value::of(std::string("adapter")));
  BOOST_TEST(refusal(adapter).find("it is an adapter, not a whole model") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_file_has_the_order_that_llama_cpp_reads) {
  const scratch_folder folder;
  const auto in_file = [&](const char* name) {
    const auto file = check_ok(core::source_file::open(folder / "out.gguf"));
    const auto header = check_ok(read_gguf_header(*file));
    const auto at = std::ranges::find(header->tensors, name, &gguf_tensor::name);
    BOOST_REQUIRE(at != header->tensors.end());
    std::vector<float> out(at->elements());
    check_ok(file->read(header->data_begin + at->offset_bytes, std::as_writable_bytes(std::span(out))));
    return out;
  };
  const auto llama = small_llama();
  const auto from = opened(folder, llama);
  exported(from, options_for(llama, folder / "out.gguf"));
  const uint64_t width = 64, head = 32;
  for (const auto& [ours, theirs, heads] : {std::tuple{"model.layers.0.self_attn.q_proj", "blk.0.attn_q", 4},
                                            {"model.layers.0.self_attn.k_proj", "blk.0.attn_k", 2}}) {
    const auto a = values_of(from, std::string(ours) + ".weight"),
               b = in_file((std::string(theirs) + ".weight").c_str());
    const auto c = values_of(from, std::string(ours) + ".bias"), d = in_file((std::string(theirs) + ".bias").c_str());
    for (uint64_t h = 0; h < static_cast<uint64_t>(heads); ++h)
      for (uint64_t i = 0; i < head / 2; ++i)
        for (uint64_t half = 0; half < 2; ++half) {
          BOOST_TEST_INFO_SCOPE("h " << h);
          BOOST_TEST_INFO_SCOPE("half " << half);
          BOOST_TEST_INFO_SCOPE("i " << i);
          const uint64_t row = h * head + half * head / 2 + i, stored = h * head + 2 * i + half;
          BOOST_REQUIRE(std::equal(&a[row * width], &a[row * width] + width, &b[stored * width]));
          BOOST_REQUIRE_EQUAL(c[row], d[stored]);
        }
  }
  BOOST_CHECK(values_of(from, "model.layers.0.self_attn.v_proj.weight") == in_file("blk.0.attn_v.weight"));

  const scratch_folder other;
  const auto gpt2 = small_gpt2();
  const auto second = opened(other, gpt2);
  exported(second, options_for(gpt2, folder / "out.gguf"));
  const auto a = values_of(second, "transformer.h.1.mlp.c_fc.weight"), b = in_file("blk.1.ffn_up.weight");
  for (uint64_t i = 0; i < 64; ++i)
    for (uint64_t o = 0; o < 96; ++o) BOOST_REQUIRE_EQUAL(a[i * 96 + o], b[o * 64 + i]);
}

BOOST_AUTO_TEST_CASE(memory_does_not_grow_with_the_model) {
  // The matrices are 128 MiB of zeros in a sparse file; one of them must be transposed, for which a separate memory
  // limit exists.
  const scratch_folder folder;
  gguf_model sizes = small_gpt2().sizes;
  sizes.blocks = 1;
  sizes.inner = uint32_t{1} << 19U;
  tensor_source from;
  from.folder = folder.path();
  uint64_t at = 0;
  for (const auto& t : small_gpt2().tensors) {
    if (t.name.find("h.1.") != std::string::npos) continue;
    auto shape = t.shape;
    for (auto& extent : shape)
      if (extent == 96) extent = sizes.inner;
    const uint64_t count = core::numel_of(shape);
    from.tensors.push_back({t.name, tensor_kind::weight, {}, core::dtype::f32, shape, {{0, 0, count, at, {}}}});
    at += count * sizeof(float);
  }
  const auto zeros = folder.write("zeros", "");
  fs::resize_file(zeros, at);
  from.files.push_back({zeros, at});
  check_ok(complete(from));
  checkpoint::gguf_export_options options{
      .out = folder / "out.gguf", .type = *mixture_from("q8_0"), .model = sizes, .more = {}, .progress = {}};
  const troupe::tests::memory_mark mark;
  check_ok(checkpoint::export_gguf(from, options));
  BOOST_TEST(mark.taken() < checkpoint::gguf_transposed_bytes + 4 * checkpoint::gguf_chunk_bytes);
  const auto back = check_ok(checkpoint::open_source(options.out));
  const troupe::tests::memory_mark reading;
  check_ok(verify_source(storage::real_files(), *back));
  BOOST_TEST(reading.taken() < 8 * checkpoint::gguf_chunk_bytes);
}

BOOST_AUTO_TEST_CASE(damaged_files_are_read_or_refused) {
  const scratch_folder folder;
  for (const char* name : {"llama", "gpt2"}) {
    std::ifstream in((std::string(troupe::places::source_dir) + "/tests/fuzz/corpus/gguf/") + std::string(name),
                     std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    BOOST_REQUIRE(checkpoint::open_source(folder.write("input.gguf", whole)));
    const troupe::tests::mutation_hints hints{std::string_view("\0\1\2\3\4\5\6\7\x8\x9\xA\xFF\x7F\x80", 14), 900};
    troupe::tests::for_mutations(
        whole, 11, hints,
        [&](size_t n, const std::string& text) {
          const auto s = checkpoint::open_source(folder.write("input.gguf", text));
          if (!s) return;
          source_reader reader(*s);
          for (const auto& t : s->tensors) {
            std::vector<std::byte> out(core::numel_of(t.shape) * core::size_of(t.type));
            const auto read = reader.read(t, 0, core::numel_of(t.shape), out);
            BOOST_TEST((read || read.error().kind == core::error_kind::bad_input), name << " mutation " << n);
          }
        },
        troupe::tests::mutations() / 2);
  }
}

BOOST_AUTO_TEST_CASE(every_mixture_is_read_back_near_what_went_in) {
  const auto model = small_llama();
  const scratch_folder folder;
  const auto from = opened(folder, model);
  for (const char* type : {"f16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "q4_k_m", "q5_k_m"}) {
    BOOST_TEST_INFO_SCOPE(type);
    const auto back = exported(from, options_for(model, folder / (std::string(type) + ".gguf"), type));
    const auto report = check_ok(diff_sources(storage::real_files(), from, back, {.tolerance = 1.0, .progress = {}}));
    BOOST_CHECK_EQUAL(report->tensors, model.tensors.size());
    for (const auto& d : report->differences) BOOST_ERROR(type << ": " << d.text);
  }
}

BOOST_AUTO_TEST_CASE(mixtures_give_more_bits_to_what_counts_most) {
  const auto type = [](const char* mixture, const char* name, uint32_t block, uint64_t row = 512, bool tied = false) {
    return name_of(type_for(*mixture_from(mixture), {name, gguf_order::same, block}, row, 2, 16, tied));
  };
  BOOST_CHECK_EQUAL(type("q4_k_m", "blk.0.ffn_down.weight", 0), "q6_k");
  BOOST_CHECK_EQUAL(type("q4_k_m", "blk.2.ffn_down.weight", 2), "q4_k");
  BOOST_CHECK_EQUAL(type("q4_k_m", "blk.4.attn_v.weight", 4), "q6_k");
  BOOST_CHECK_EQUAL(type("q5_k_m", "blk.15.attn_v.weight", 15), "q6_k");
  BOOST_CHECK_EQUAL(type("q4_k_m", "blk.0.ffn_up.weight", 0), "q4_k");
  BOOST_CHECK_EQUAL(type("q4_k_m", "blk.0.attn_qkv.weight", 0), "q5_k");
  BOOST_CHECK_EQUAL(type("q4_k_m", "output.weight", 0), "q6_k");
  BOOST_CHECK_EQUAL(type("q4_k_m", "token_embd.weight", 0), "q4_k");
  BOOST_CHECK_EQUAL(type("q4_k_m", "token_embd.weight", 0, 512, true), "q6_k");
  BOOST_CHECK_EQUAL(type("q4_k", "blk.0.ffn_down.weight", 0), "q4_k");
  BOOST_CHECK_EQUAL(type("q4_k", "blk.0.ffn_up.weight", 0, 96), "q5_0");
  BOOST_CHECK_EQUAL(type("q5_k", "blk.0.ffn_up.weight", 0, 96), "q5_1");
  BOOST_CHECK_EQUAL(type("q6_k", "blk.0.ffn_up.weight", 0, 96), "q8_0");
  BOOST_CHECK_EQUAL(type("q6_k", "blk.0.ffn_up.weight", 0, 100), "f16");
  BOOST_CHECK_EQUAL(type("q4_0", "position_embd.weight", 0), "f32");
}

BOOST_AUTO_TEST_CASE(a_file_is_bits_and_scales_of_its_matrices_and_the_rest_within_2_percent) {
  const auto model = gpt2_of(256, 512, 300);
  uint64_t matrices = 0, rest = 0;
  for (const auto& t : model.tensors)
    (t.shape.size() == 2 && !t.name.ends_with("wpe.weight") ? matrices : rest) += t.data.size() / sizeof(float);
  const scratch_folder folder;
  const auto from = opened(folder, model);
  // The bits per weight include its share of the scales.
  for (const auto& [type, bits] : {std::pair{"q8_0", 8.5}, std::pair{"q4_0", 4.5}, std::pair{"q4_1", 5.0},
                                   std::pair{"q5_0", 5.5}, std::pair{"q5_1", 6.0}, std::pair{"q4_k", 4.5},
                                   std::pair{"q5_k", 5.5}, std::pair{"q6_k", 6.5625}, std::pair{"f16", 16.0}}) {
    check_ok(checkpoint::export_gguf(from, options_for(model, folder / "out.gguf", type)));
    const double wanted = static_cast<double>(matrices) * bits / 8 + static_cast<double>(rest * sizeof(float));
    const auto bytes = static_cast<double>(fs::file_size(folder / "out.gguf"));
    BOOST_TEST(bytes <= 1.02 * wanted, type << ": " << bytes << " bytes for " << wanted);
    BOOST_TEST(bytes >= wanted, type);
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_and_leaves_nothing) {
  const auto refused = [](model_files model, const std::function<void(model_files&)>& change, const char* words) {
    const scratch_folder folder;
    change(model);
    const auto from = opened(folder, model);
    check_failed(checkpoint::export_gguf(from, options_for(model, folder / "out.gguf", "q8_0")), words);
    for (const auto& entry : fs::directory_iterator(folder.path()))
      BOOST_CHECK_EQUAL(entry.path().filename(), "weights");
  };
  refused(
      small_gpt2(), [](auto& m) { m.tensors.pop_back(); }, "has no parameter that becomes 'blk.1.ffn_down.bias'");
  refused(
      small_gpt2(), [](auto& m) { m.sizes.blocks = 1; }, "is not a parameter of a gpt2 model with 1 blocks");
  refused(
      small_gpt2(), [](auto& m) { m.sizes.inner = 128; }, "wanted 128 for 'blk.0.ffn_up.bias'");
  refused(
      small_llama(), [](auto& m) { m.sizes.kv_heads = 4; }, "wanted 128 for 'blk.0.attn_k.bias'");
  refused(
      small_llama(), [](auto& m) { m.tensors.push_back(numbered("model.extra.weight", {4})); },
      "tensor 'model.extra.weight': it is not a parameter");
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38F})
    refused(
        small_llama(), [&](auto& m) { std::memcpy(&m.tensors[0].data[400], &odd, sizeof odd); },
        "elements 96 to 127 of its rows in the file cannot be stored as q8_0");
}

BOOST_AUTO_TEST_CASE(a_stopped_export_leaves_nothing) {
  const scratch_folder folder;
  const auto model = small_llama();
  const auto from = opened(folder, model);
  auto options = options_for(model, folder / "out.gguf");
  options.progress = [](uint64_t, uint64_t) { return false; };
  const auto report = checkpoint::export_gguf(from, options);
  BOOST_REQUIRE(!report);
  BOOST_CHECK(report.error().kind == core::error_kind::stopped);
  BOOST_CHECK(!fs::exists(folder / "out.gguf"));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::formats::tests
