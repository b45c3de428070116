// Files written for torch.load, read back; tests/peer/load_torch_archive.py opens the same file with torch itself.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>

#include "checkpoint/torch_archive.hpp"
#include "checkpoint/torch_archive_writer.hpp"
#include "tests/checkpoint/tensors.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::tests;
using core::dtype;

BOOST_AUTO_TEST_SUITE(torch_archive_writer)

BOOST_AUTO_TEST_CASE(tensors_shared_storages_and_plain_values_come_back) {
  const scratch_folder at;
  const char* kept = std::getenv("TROUPE_TORCH_FILE");
  const auto path = kept == nullptr ? at / "a.pt" : std::filesystem::path(kept);
  const std::vector<owned_tensor> tensors{
      {"w", dtype::f32, {3, 4}}, {"b", dtype::bf16, {5}}, {"h", dtype::f16, {2, 1, 2}}, {"d", dtype::f64, {2}},
      {"step", dtype::i64, {}},  {"i", dtype::i32, {3}},  {"empty", dtype::u8, {0, 3}}, {"c", dtype::i8, {7}}};
  auto list = all_to_write(tensors);
  list[0].bytes = {};
  list[0].source = [&](uint64_t from, std::span<std::byte> out) -> core::result<void> {
    std::copy_n(tensors[0].data.begin() + static_cast<std::ptrdiff_t>(from), out.size(), out.begin());
    return {};
  };
  check_ok(write_torch_archive(path, list, {{"tied", "w"}},
                               {{"none", std::monostate()},
                                {"yes", true},
                                {"n", int64_t{-5'000'000'000}},
                                {"lr", 0.125},
                                {"note", std::string("kept")}}));
  const auto file = torch_archive::open(path);
  check_ok(file);
  BOOST_TEST(file->unknown_globals().empty());
  for (const auto& t : tensors) {
    const auto value = file->tree().find(file->root(), t.name);
    BOOST_REQUIRE(value.has_value());
    const auto tensor = file->tensor(*value);
    check_ok(tensor);
    BOOST_TEST((tensor->type == t.type && tensor->shape == t.shape && tensor->is_contiguous()));
    BOOST_TEST(same_bytes(file->file_bytes().subspan(tensor->begin, t.data.size()), t.data), t.name);
    BOOST_TEST(tensor->begin % 64 == 0U);
  }
  const auto tied = file->tensor(*file->tree().find(file->root(), "tied"));
  check_ok(tied);
  BOOST_TEST(tied->storage == "0");
  BOOST_TEST(file->tree().integer(*file->tree().find(file->root(), "n")) == -5'000'000'000);
  BOOST_TEST(file->tree().real(*file->tree().find(file->root(), "lr")) == 0.125);
  BOOST_TEST(file->tree().text(*file->tree().find(file->root(), "note")) == "kept");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_refused_before_a_byte) {
  const scratch_folder at;
  const std::vector<owned_tensor> tensors{{"w", dtype::f32, {3}}};
  const auto bad = core::error_kind::bad_input;
  auto list = all_to_write(tensors);
  check_failed(write_torch_archive(at / "a.pt", list, {{"tied", "x"}}), bad, "no tensor here");
  check_failed(write_torch_archive(at / "a.pt", list, {}, {{"w", true}}), bad, "comes twice");
  list[0].shape = {4};
  check_failed(write_torch_archive(at / "a.pt", list), bad, "do not fit");
  BOOST_TEST(files_in(at.path()) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
