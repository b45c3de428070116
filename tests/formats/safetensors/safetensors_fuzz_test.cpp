// Tests mutated files: each is refused, or opens and can be read to its last byte; none makes the reader allocate more
// than the file's size plus a constant.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "formats/safetensors/safetensors.hpp"
#include "formats/safetensors/weights_index.hpp"
#include "tests/counted_memory.hpp"
#include "tests/formats/mutations.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
using core::dtype;

namespace {

constexpr size_t allowed_bytes_beyond_file = 64 * 1024;

std::string valid_file(const scratch_folder& at) {
  const std::vector<owned_tensor> tensors{
      {"wte.weight", dtype::f32, {16, 4}}, {"h.0.ln.bias", dtype::bf16, {4}}, {"h.0.attn.weight", dtype::f16, {4, 12}},
      {"empty", dtype::f64, {0, 3}},       {"step", dtype::i64, {}},          {"mask", dtype::boolean, {3}}};
  check_ok(write_safetensors(at / "valid.safetensors", all_to_write(tensors)));
  return scratch_folder::read(at / "valid.safetensors");
}

/// Reads every byte of every tensor in the file and returns their sum.
uint64_t sum_of(const safetensors_file& file) {
  uint64_t sum = 0;
  for (const auto& e : file.entries()) {
    const auto bytes = check_ok(file.bytes(e));
    for (const std::byte b : *bytes) sum += static_cast<uint64_t>(b);
  }
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(safetensors_fuzz)

BOOST_AUTO_TEST_CASE(mutations_neither_crash_nor_allocate_beyond_the_file) {
  const scratch_folder at;
  const std::string valid = valid_file(at);
  size_t opened = 0;
  size_t refused = 0;
  uint64_t sum = 0;
  for_mutations(valid, 20240607, json_hints, [&](size_t i, const std::string& content) {
    const auto path = at.write("m.safetensors", content);
    const size_t before = live_bytes;
    peak_bytes = before;
    const auto file = safetensors_file::open(path);
    const size_t taken = peak_bytes - before;
    BOOST_TEST(taken <= content.size() + allowed_bytes_beyond_file, "mutation " << i << " took " << taken);
    if (file) {
      ++opened;
      sum += sum_of(*file);
    } else {
      ++refused;
      BOOST_TEST(file.error().text.size() < 1000U);
    }
  });
  // Both outcomes must occur; otherwise the mutations would be harmless or all alike.
  BOOST_TEST(opened > 20U);
  BOOST_TEST(refused > 500U);
  BOOST_TEST(sum > 0U);
}

BOOST_AUTO_TEST_CASE(claims_of_huge_sizes_allocate_nothing) {
  const scratch_folder at;
  const std::string tail = R"(,"data_offsets":[0,0]}})";
  for (const std::string& header :
       {R"({"w":{"dtype":"F32","shape":[4611686018427387904])" + tail,
        R"({"w":{"dtype":"F32","shape":[1,)" + std::string(4000, '9') + "]" + tail,
        std::string(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,9223372036854775807]}})")}) {
    BOOST_TEST_INFO_SCOPE(header);
    const auto path = at.write("m.safetensors", as_file(header));
    const size_t before = live_bytes;
    peak_bytes = before;
    BOOST_TEST(!safetensors_file::open(path));
    BOOST_TEST(peak_bytes - before <= header.size() + allowed_bytes_beyond_file);
  }
}

BOOST_AUTO_TEST_CASE(a_header_of_many_tensors_takes_a_small_multiple_of_itself) {
  std::string header = "{";
  for (int i = 0; i < 50'000; ++i)
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "" : ",", i);
  header += "}";
  const size_t before = live_bytes;
  peak_bytes = before;
  check_ok(parse_header(header, 0));
  BOOST_TEST(peak_bytes - before <= 6 * header.size());
}

BOOST_AUTO_TEST_CASE(a_mutated_index_never_names_a_file_outside) {
  const std::string valid =
      R"({"metadata":{"total_size":12,"deep":[{"a":[1,2,{"b":null}]}]},"weight_map":{"a":"m-1.safetensors","b":"sub/m-2.safetensors"}})";
  check_ok(parse_weights_index(valid));
  size_t parsed = 0;
  const auto look = [&](size_t, const std::string& text) {
    const auto map = parse_weights_index(text);
    if (!map) return;
    ++parsed;
    for (const auto& [tensor, file] : *map) {
      const auto path = std::filesystem::path(file);
      BOOST_TEST((path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end()));
    }
  };
  for_mutations(valid, 7, json_hints, look, 3 * mutations());
  BOOST_TEST(parsed > 50U);
}

BOOST_AUTO_TEST_SUITE_END()
