// Tests files of weights that are truncated while they are open: the error names the file, whatever part is being read.
#include <fmt/format.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "checkpoint/convert/open_source.hpp"
#include "formats/deepspeed/lists.hpp"
#include "formats/deepspeed/stage0.hpp"
#include "formats/report/verify.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/archive.hpp"
#include "formats/torch/archive_writer.hpp"
#include "formats/torch/pickle_reader.hpp"
#include "formats/torch/zip_reader.hpp"
#include "formats/weights/torch.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(cut_files)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
using core::dtype;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed";

core::source_file opened(const fs::path& path) {
  auto file = check_ok(core::source_file::open(path));
  return std::move(*file);
}

/// Checks that the error is the one sentence about truncated files, in which the file's name occurs once.
template <class T>
void check_cut(const core::result<T>& r, const fs::path& path, uint64_t had) {
  check_failed(
      r, error_kind::io,
      fmt::format("cannot read '{}': it had {} bytes when it was opened and has become shorter", path.string(), had));
  const auto& text = r.error().text;
  BOOST_TEST(text.find(path.string()) == text.rfind(path.string()), text);
}

fs::path written_archive(const scratch_folder& at) {
  const auto path = at / "w.pt";
  const std::vector<owned_tensor> tensors{{"first", dtype::f32, {100}}, {"last", dtype::bf16, {5000}}};
  check_ok(write_torch_archive(path, all_to_write(tensors)));
  return path;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_archive_cut_after_its_opening_is_named_when_its_tensors_are_read) {
  const scratch_folder at;
  const auto path = written_archive(at);
  const uint64_t had = fs::file_size(path);
  const auto file = check_ok(torch_archive::open(path));
  const auto value = check_ok(file->tree().find(file->root(), "last"));
  fs::resize_file(path, 4096 + 5);           // truncates the file in the middle of a page
  const auto tensor = file->tensor(*value);  // names and offsets were copied into memory when the file was opened
  check_ok(tensor);
  std::vector<std::byte> bytes(10'000);
  check_cut(file->read(tensor->begin, bytes), path, had);
  BOOST_TEST(file->file_bytes() == had);
}

BOOST_AUTO_TEST_CASE(directory_and_pickle_of_a_cut_file_are_an_error_with_its_name) {
  const scratch_folder at;
  const auto path = written_archive(at);
  const std::string content = scratch_folder::read(path);
  const auto list = check_ok(read_zip(std::as_bytes(std::span(content))));
  const auto* pickle = find_entry(list->entries, "archive/data.pkl");
  BOOST_REQUIRE(pickle != nullptr);
  for (const uint64_t left : {uint64_t{0}, pickle->begin + 3, uint64_t{content.size() - 1}}) {
    fs::remove(path);
    at.write("w.pt", content);
    const auto file = opened(path);
    fs::resize_file(path, left);
    check_cut(read_zip(file), path, content.size());
    if (left <= pickle->begin + 3) check_cut(read_pickle(file, pickle->begin, pickle->bytes), path, content.size());
  }
}

BOOST_AUTO_TEST_CASE(an_archive_that_is_cut_and_mended_while_it_is_opened_again_and_again_ends_no_process) {
  const scratch_folder at;
  const auto path = written_archive(at);
  const std::string content = scratch_folder::read(path);
  std::atomic<bool> ends = false;
  std::thread cuts([&] {
    for (uint64_t i = 1; !ends; ++i) {
      fs::resize_file(path, core::mix64(i) % content.size());
      std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
      out.write(content.data(), static_cast<std::streamsize>(content.size()));
    }
  });
  size_t whole = 0, refused = 0;
  for (int i = 0; i < 20'000 && (i < 500 || whole == 0 || refused == 0); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto file = torch_archive::open(path);
    ++(file ? whole : refused);
    if (!file) BOOST_TEST(file.error().text.starts_with("cannot read '" + path.string() + "': "), file.error().text);
  }
  ends = true;
  cuts.join();
  BOOST_TEST(whole > 0U);
  BOOST_TEST(refused > 0U);
}

BOOST_AUTO_TEST_CASE(an_optimizer_without_zero_in_a_cut_file_is_an_error_with_its_name) {
  const scratch_folder at;
  const auto path = at / "mp_rank_00_model_states.pt";
  fs::path from;
  for (const auto& entry : fs::recursive_directory_iterator(fixtures / "stage0_bf16"))
    if (entry.path().filename() == path.filename()) from = entry.path();
  BOOST_REQUIRE(!from.empty());
  fs::copy_file(from, path);
  const uint64_t had = fs::file_size(path);
  const auto file = check_ok(torch_archive::open(path));
  const auto lists = check_ok(read_deepspeed_lists(*file));
  const auto before = check_ok(read_stage0(*file, 0, lists->module));
  BOOST_TEST(before->has_value());
  fs::resize_file(path, 100);
  check_cut(read_stage0(*file, 0, lists->module), path, had);
}

BOOST_AUTO_TEST_CASE(sums_of_a_cut_archive_are_damages_with_its_name) {
  const scratch_folder at;
  const auto path = written_archive(at);
  const auto source = check_ok(read_torch_source(path));
  const auto whole = check_ok(verify_source(real_files(), *source, {}));
  BOOST_TEST(whole->damages == 0U);
  fs::resize_file(path, 5000);
  const auto cut = check_ok(verify_source(real_files(), *source, {}));
  BOOST_REQUIRE(cut->listed.size() == 1U);
  BOOST_TEST(cut->listed[0].text.find("w.pt") != std::string::npos, cut->listed[0].text);
}

BOOST_AUTO_TEST_CASE(safetensors_cut_after_their_opening_are_named_and_files_that_replaced_them_too) {
  const scratch_folder at;
  const std::vector<owned_tensor> tensors{{"first", dtype::f32, {100}}, {"last", dtype::bf16, {5000}}};
  const auto path = at / single_file_name;
  check_ok(write_safetensors(path, all_to_write(tensors)));
  const uint64_t had = fs::file_size(path);
  const auto folder = check_ok(weights_folder::open(at.path()));
  const auto last = check_ok(folder->find("last"));
  std::vector<std::byte> some(30);
  check_ok(last->file->read(*last->entry, 9970, some));
  BOOST_TEST(same_bytes(some, std::span(tensors[1].data).last(30)));
  fs::resize_file(path, had - 1);
  check_ok(last->file->read(*last->entry, 0, some));
  check_cut(last->bytes(), path, had);
  check_ok(write_safetensors(path, all_to_write(tensors)));  // writes a new file under the old name
  check_failed(last->bytes(), error_kind::io, "another file has taken its place");
}

BOOST_AUTO_TEST_SUITE_END()
