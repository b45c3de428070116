// Tests safetensors files that are written and read back, and files that must be refused.
#include "formats/safetensors/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/file_size_limit.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(safetensors)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
using core::dtype;

BOOST_AUTO_TEST_CASE(every_dtype_and_shape_comes_back_bit_for_bit) {
  const scratch_folder at;
  const std::vector<owned_tensor> tensors{{"scalar", dtype::f32, {}},
                                          {"empty", dtype::f16, {0}},
                                          {"empty.wide", dtype::f64, {3, 0, 5}},
                                          {"wte.weight", dtype::bf16, {7, 5}},
                                          {"half", dtype::f16, {1, 2, 3}},
                                          {"double", dtype::f64, {11}},
                                          {"ids", dtype::i64, {2, 2}},
                                          {"i32", dtype::i32, {3}},
                                          {"i16", dtype::i16, {5}},
                                          {"i8", dtype::i8, {9}},
                                          {"u8", dtype::u8, {1}},
                                          {"mask", dtype::boolean, {3, 3}}};
  check_ok(write_safetensors(at / "w.safetensors", all_to_write(tensors)));
  const auto file = check_ok(safetensors_file::open(at / "w.safetensors"));
  BOOST_TEST((file->metadata() == string_map{{"format", "pt"}}));
  BOOST_TEST(file->entries().size() == tensors.size());
  for (const auto& t : tensors) {
    const auto* e = file->find(t.name);
    BOOST_REQUIRE_MESSAGE(e != nullptr, t.name);
    BOOST_TEST((e->type == t.type), t.name);
    BOOST_TEST((e->shape == t.shape), t.name);
    BOOST_TEST(same_bytes(file->bytes(*e).value(), t.data), t.name);
    BOOST_TEST(file->offset_bytes(*e) % core::size_of(t.type) == 0U, t.name << " is not aligned");
  }
  BOOST_TEST(file->find("wte") == nullptr);
  BOOST_TEST(file->find("zzz") == nullptr);
  BOOST_TEST(files_in(at.path()) == 1U);
}

BOOST_AUTO_TEST_CASE(a_file_of_no_tensors_is_a_file) {
  const scratch_folder at;
  check_ok(write_safetensors(at / "w.safetensors", {}));
  const auto file = check_ok(safetensors_file::open(at / "w.safetensors"));
  BOOST_TEST(file->entries().empty());
}

BOOST_AUTO_TEST_CASE(an_open_file_can_be_moved) {
  const scratch_folder at;
  const owned_tensor t("w", dtype::f32, {100});
  check_ok(write_safetensors(at / "w.safetensors", all_to_write({t})));
  auto file = check_ok(safetensors_file::open(at / "w.safetensors"));
  const safetensors_file moved = std::move(*file);
  BOOST_TEST(same_bytes(moved.bytes(*moved.find("w")).value(), t.data));
}

BOOST_AUTO_TEST_CASE(sources_are_read_in_bounded_blocks_in_the_order_of_the_file) {
  const scratch_folder at;
  const owned_tensor big("big", dtype::u8, {2 * static_cast<int64_t>(write_block_bytes) + 12345});
  const owned_tensor small("small", dtype::f64, {3});
  std::string asked;
  const auto from = [&](const owned_tensor& t) {
    auto out = t.to_write();
    out.bytes = {};
    out.source = [&](uint64_t offset, std::span<std::byte> to) -> core::result<void> {
      BOOST_REQUIRE(to.size() <= write_block_bytes);
      std::copy_n(t.data.begin() + static_cast<int64_t>(offset), to.size(), to.begin());
      asked += fmt::format("{}@{} ", t.name, offset);
      return {};
    };
    return out;
  };
  const std::vector<tensor_to_write> tensors{from(big), from(small)};
  check_ok(write_safetensors(at / "w.safetensors", tensors));
  BOOST_TEST(asked == "small@0 big@0 big@4194304 big@8388608 ");
  const auto file = check_ok(safetensors_file::open(at / "w.safetensors"));
  BOOST_TEST(same_bytes(file->bytes(*file->find("big")).value(), big.data));
  BOOST_TEST(same_bytes(file->bytes(*file->find("small")).value(), small.data));
}

BOOST_AUTO_TEST_CASE(a_source_that_fails_leaves_the_old_file) {
  const scratch_folder at;
  at.write("w.safetensors", "old");
  const std::vector<tensor_to_write> tensors{
      {"w", dtype::f32, {10}, {}, [](uint64_t, std::span<std::byte>) -> core::result<void> {
         return core::fail(error_kind::peer_lost, "rank 1 is gone");
       }}};
  check_failed(write_safetensors(at / "w.safetensors", tensors), error_kind::peer_lost, "tensor 'w': rank 1 is gone");
  BOOST_TEST(scratch_folder::read(at / "w.safetensors") == "old");
  BOOST_TEST(files_in(at.path()) == 1U);
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_nothing_behind) {
  const scratch_folder at;
  const owned_tensor t("w", dtype::f32, {100'000});
  core::result<void> written;
  {
    const file_size_limit full(65'536);
    written = write_safetensors(at / "w.safetensors", all_to_write({t}));
  }
  check_failed(written, error_kind::no_space, "w.safetensors");
  BOOST_TEST(files_in(at.path()) == 0U);
}

BOOST_AUTO_TEST_CASE(tensors_that_no_file_can_hold_are_refused_before_anything_is_written) {
  const scratch_folder at;
  const std::vector<std::byte> four(4);
  const auto refused = [&](std::vector<tensor_to_write> tensors, const std::string& words) {
    check_failed(write_safetensors(at / "w.safetensors", tensors), error_kind::bad_input, words);
    BOOST_TEST(files_in(at.path()) == 0U);
  };
  refused({{"a", dtype::f32, {1}, four}, {"a", dtype::f32, {1}, four}}, "'a' twice");
  refused({{"a", dtype::f32, {2}, four}}, "takes 8 bytes, got 4");
  refused({{"a", dtype::f32, {-1}, four}}, "negative");
  refused({{"a", dtype::f32, {int64_t{1} << 40, int64_t{1} << 40}, four}}, "too large for any file");
  refused({{"__metadata__", dtype::f32, {1}, four}}, "reserves that name");
  refused({{"\xC3", dtype::f32, {1}, four}}, "not UTF-8");
}

BOOST_AUTO_TEST_CASE(truncated_and_oversized_headers_are_refused) {
  const scratch_folder at;
  const auto refused = [&](const std::string& content, error_kind kind, const std::string& words) {
    const auto file = safetensors_file::open(at.write("w.safetensors", content));
    check_failed(file, kind, words);
    BOOST_TEST(file.error().text.find("w.safetensors") != std::string::npos);
  };
  refused("", error_kind::bad_input, "it has only 0 bytes");
  refused("1234567", error_kind::bad_input, "it has only 7 bytes");
  const auto claims = [](uint64_t length) {
    std::string out(8, '\0');
    std::memcpy(out.data(), &length, 8);
    return out + "{}";
  };
  refused(claims(3), error_kind::bad_input, "claims 3 bytes, but only 2 follow");
  refused(claims(max_header_bytes), error_kind::bad_input, "only 2 follow");
  refused(claims(max_header_bytes + 1), error_kind::limit, "claims 100000001 bytes, at most 100000000");
  refused(claims(~uint64_t{0}), error_kind::limit, "claims 18446744073709551615 bytes");
  refused(claims(0), error_kind::bad_input, "opens with '{'");
  refused(as_file(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234567"), error_kind::bad_input,
          "tensor 'w' has data_offsets [0, 8], the file holds 7");
  check_failed(safetensors_file::open(at / "missing"), error_kind::bad_input, "No such file");
  check_failed(safetensors_file::open(at.path()), error_kind::bad_input, "a regular file was wanted");
}

BOOST_AUTO_TEST_SUITE_END()
