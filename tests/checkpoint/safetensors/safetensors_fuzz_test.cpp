// Tests mutated files: each is refused, or opens and can be read to its last byte; none makes the reader allocate more
// than the file's size plus a constant.
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "checkpoint/safetensors/safetensors.hpp"
#include "checkpoint/safetensors/weights_index.hpp"
#include "tests/checkpoint/counted_memory.hpp"
#include "tests/checkpoint/mutations.hpp"
#include "tests/checkpoint/tensors.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::tests {

std::atomic<size_t> live_bytes{0};
std::atomic<size_t> peak_bytes{0};
std::atomic<size_t> asked_bytes{0};

}  // namespace troupe::tests

using troupe::tests::asked_bytes;
using troupe::tests::live_bytes;
using troupe::tests::peak_bytes;

// Counts the memory of the whole test program; tests read the counters through counted_memory.hpp.
void* operator new(size_t bytes) {
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  asked_bytes += bytes;
  const size_t now = live_bytes += ::malloc_usable_size(p);
  size_t seen = peak_bytes;
  while (now > seen && !peak_bytes.compare_exchange_weak(seen, now)) {
  }
  return p;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* p) noexcept {
  if (p != nullptr) live_bytes -= ::malloc_usable_size(p);
  std::free(p);
}
void operator delete(void* p, size_t) noexcept { ::operator delete(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { ::operator delete(p); }

using namespace troupe;
using namespace troupe::checkpoint;
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
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
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
