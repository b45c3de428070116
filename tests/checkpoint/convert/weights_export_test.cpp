// Tests exports of a DeepSpeed folder in every form, and reads them back.
#include "checkpoint/convert/weights_export.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "formats/deepspeed/source.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/safetensors/weights_index.hpp"
#include "formats/torch/archive.hpp"
#include "tests/formats/archive_bytes.hpp"
#include "tests/formats/newest_in.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(weights_export)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed";

torch_tensor tensor_in(const torch_archive& file, std::string_view name) {
  const auto value = file.tree().find(file.root(), name);
  BOOST_REQUIRE_MESSAGE(value.has_value(), name);
  auto t = check_ok(file.tensor(*value));
  return std::move(*t);
}

/// Returns the bytes of a tensor in a file of torch.save.
std::vector<std::byte> bytes_in(const torch_archive& file, std::string_view name) {
  const auto t = tensor_in(file, name);
  return bytes_at(file, t.begin, t.numel * core::size_of(t.type));
}

}  // namespace

BOOST_AUTO_TEST_CASE(files_of_torch_have_the_same_tensors_and_share_tied_storages) {
  const scratch_folder at;
  const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / "stage2_bf16")));
  check_ok(export_weights(*source, {.out = at / "one.bin"}));
  check_ok(export_weights(*source, {.out = at / "one.safetensors"}));
  const auto torch = torch_archive::open(at / "one.bin");
  const auto safe = weights_folder::open(at / "one.safetensors");
  check_ok(torch);
  check_ok(safe);
  BOOST_TEST(torch->tree().items(torch->root()).size() == 2 * safe->tensors().size());
  for (const auto& t : safe->tensors())
    BOOST_TEST(same_bytes(bytes_in(*torch, t.entry->name), t.bytes().value()), t.entry->name);
  BOOST_TEST(tensor_in(*torch, "head.weight").begin == tensor_in(*torch, "embed.weight").begin);
}

BOOST_AUTO_TEST_CASE(shards_have_an_index_and_a_later_export_replaces_them) {
  const scratch_folder at;
  const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / "stage3_fp32")));
  const auto report = check_ok(export_weights(*source, {.out = at / "out", .max_shard_bytes = 400}));
  BOOST_TEST(report->files.size() > 3U);
  BOOST_TEST(report->files.back() == at / "out/model.safetensors.index.json");
  const auto map = check_ok(parse_weights_index(scratch_folder::read(report->files.back())));
  BOOST_TEST(map->size() == report->tensors);
  for (const auto& [name, file] : *map) {
    const auto shard = check_ok(safetensors_file::open(at / "out" / file));
    BOOST_TEST((shard->find(name) != nullptr), name);
  }
  // A later export that writes a single file removes the index of the earlier export.
  check_ok(export_weights(*source, {.out = at / "out"}));
  BOOST_TEST(!fs::exists(at / "out/model.safetensors.index.json"));
  BOOST_TEST(fs::exists(at / "out/model.safetensors"));
  BOOST_TEST(files_in(at / "out") == 1U);  // the shards of the earlier export were removed
  at.write("other/pytorch_model.bin", "");
  check_failed(export_weights(*source, {.out = at / "other"}), core::error_kind::bad_input,
               "pytorch_model.bin' names weights that this export does not replace");
  BOOST_TEST(files_in(at / "other") == 1U);
}

BOOST_AUTO_TEST_CASE(a_folder_may_have_the_ending_of_a_file) {
  const scratch_folder at;
  const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / "stage3_fp32")));
  for (const char* name : {"out.safetensors", "out.pt"}) {
    BOOST_TEST_INFO_SCOPE(name);
    check_ok(export_weights(*source, {.out = at / name, .is_folder = true}));
    BOOST_TEST(fs::exists(at / name / "model.safetensors"));
  }
}

BOOST_AUTO_TEST_CASE(names_can_be_changed_or_dropped_and_types_changed) {
  const scratch_folder at;
  const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / "stage1_bf16")));
  weights_export_options options{.out = at / "m.safetensors", .type = core::dtype::bf16};
  options.rename = [](const std::string& name) -> std::optional<std::string> {
    return name == "head.weight" ? std::nullopt : std::optional("model." + name);
  };
  check_ok(export_weights(*source, options));
  const auto out = check_ok(weights_folder::open(at / "m.safetensors"));
  BOOST_TEST(!out->find("model.head.weight").has_value());
  BOOST_TEST((out->find("model.embed.weight")->entry->type == core::dtype::bf16));
  BOOST_TEST((out->find("model.count")->entry->type == core::dtype::i64));
  options.rename = [](const std::string&) { return std::optional<std::string>("same"); };
  check_failed(export_weights(*source, options), core::error_kind::bad_input, "two tensors would be written as 'same'");
}

BOOST_AUTO_TEST_CASE(a_stopped_export_leaves_existing_files_alone) {
  const scratch_folder at;
  const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / "stage2_bf16")));
  for (const char* name : {"m.safetensors", "m.bin"}) {
    BOOST_TEST_INFO_SCOPE(name);
    at.write(name, "before");
    uint64_t told = 0;
    weights_export_options options{.out = at / name};
    options.progress = [&](uint64_t done, uint64_t total) {
      BOOST_TEST(done <= total);
      ++told;
      return false;
    };
    check_failed(export_weights(*source, options), core::error_kind::stopped, "stopped");
    BOOST_TEST(told == 1U);
    BOOST_TEST(scratch_folder::read(at / name) == "before");
  }
  BOOST_TEST(std::distance(fs::directory_iterator(at / ""), fs::directory_iterator()) == 2);
}

BOOST_AUTO_TEST_CASE(sizes_of_shards_have_decimal_units) {
  BOOST_TEST(shard_bytes_from("5GB").value() == 5'000'000'000U);
  BOOST_TEST(shard_bytes_from("200mb").value() == 200'000'000U);
  BOOST_TEST(shard_bytes_from("750KB").value() == 750'000U);
  BOOST_TEST(shard_bytes_from("12").value() == 12U);
  for (const char* bad : {"", "GB", "0", "5 GB", "-1GB", "5GiB", "99999999999999TB"})
    check_failed(shard_bytes_from(bad), core::error_kind::bad_input, "or a number of bytes, got");
}

BOOST_AUTO_TEST_SUITE_END()
