// Tests files written for torch.load by reading them back; tests/peer/load_torch_archive.py opens the same file with
// torch.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>

#include "formats/torch/archive.hpp"
#include "formats/torch/archive_writer.hpp"
#include "tests/formats/archive_bytes.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(torch_archive_writer)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
using core::dtype;

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
  const auto file = check_ok(torch_archive::open(path));
  BOOST_TEST(file->unknown_globals().empty());
  for (const auto& t : tensors) {
    const auto value = check_ok(file->tree().find(file->root(), t.name));
    const auto tensor = check_ok(file->tensor(*value));
    BOOST_TEST((tensor->type == t.type && tensor->shape == t.shape && tensor->is_contiguous()));
    BOOST_TEST(same_bytes(bytes_at(*file, tensor->begin, t.data.size()), t.data), t.name);
    BOOST_TEST(tensor->begin % 64 == 0U);
  }
  const auto tied = check_ok(file->tensor(*file->tree().find(file->root(), "tied")));
  BOOST_TEST(tied->storage == "0");
  BOOST_TEST(file->tree().integer(*file->tree().find(file->root(), "n")) == -5'000'000'000);
  BOOST_TEST(file->tree().real(*file->tree().find(file->root(), "lr")) == 0.125);
  BOOST_TEST(file->tree().text(*file->tree().find(file->root(), "note")) == "kept");
}

BOOST_AUTO_TEST_CASE(impossible_tensors_are_refused_before_a_byte_is_written) {
  const scratch_folder at;
  const std::vector<owned_tensor> tensors{{"w", dtype::f32, {3}}};
  const auto bad = core::error_kind::bad_input;
  auto list = all_to_write(tensors);
  check_failed(write_torch_archive(at / "a.pt", list, {{"tied", "x"}}), bad, "a tensor that does not exist");
  check_failed(write_torch_archive(at / "a.pt", list, {}, {{"w", true}}), bad, "appears twice");
  list[0].shape = {4};
  check_failed(write_torch_archive(at / "a.pt", list), bad, "do not fit");
  BOOST_TEST(files_in(at.path()) == 0U);
}

BOOST_AUTO_TEST_CASE(values_within_values_and_views_of_one_storage_come_back) {
  const scratch_folder at;
  const auto data = noise(24 * 4, 7);
  const std::vector<torch_storage> storages{{dtype::f32, 24, data, {}}};
  auto module = torch_value::ordered_dict();
  module.set("a", torch_view{0, 0, {3, 4}}).set("b", torch_view{0, 12, {12}}).set("again", torch_view{0, 0, {3, 4}});
  module.set_metadata(torch_value::ordered_dict().set("", torch_value::dict().set("version", 1)));
  auto scaler = torch_value::object("deepspeed.runtime.fp16.loss_scaler", "LossScaler");
  scaler.set("cur_scale", 4.0).set("dynamic", false);
  auto root = torch_value::dict();
  root.set("module", std::move(module)).set("scaler", std::move(scaler)).set("nothing", {});
  root.set("numbers", torch_value::list({1, 2.5, true, "three", int64_t{1} << 40}));
  root.set("pair", torch_value::tuple({0.9, 0.999})).set("shape", torch_value::size({3, 4}));
  root.set("type", torch_value::global("torch", "float16")).set("state", torch_value::dict().set(7, "seventh"));
  root.set("empty", torch_value::list());
  check_ok(write_torch_archive(at / "a.pt", root, storages));

  const auto file = check_ok(torch_archive::open(at / "a.pt"));
  const auto& tree = file->tree();
  const auto value = [&](const char* key) { return tree.find(file->root(), key).value(); };
  const auto read = [&](const char* name) { return file->tensor(tree.find(value("module"), name).value()); };
  const auto a = read("a"), b = read("b"), again = read("again");
  check_ok(a);
  check_ok(b);
  check_ok(again);
  BOOST_TEST(b->begin == a->begin + 48);
  BOOST_TEST(again->begin == a->begin);
  BOOST_TEST(b->storage == a->storage);
  BOOST_TEST(same_bytes(bytes_at(*file, a->begin, data.size()), data));
  BOOST_REQUIRE(tree.state(value("module")).has_value());
  BOOST_TEST(tree.find(*tree.state(value("module")), "_metadata").has_value());
  BOOST_REQUIRE(tree.state(value("scaler")).has_value());
  BOOST_TEST(tree.real(tree.find(*tree.state(value("scaler")), "cur_scale").value()) == 4.0);
  BOOST_TEST((tree.kind(value("nothing")) == pickle_kind::none));
  const auto numbers = tree.items(value("numbers"));
  BOOST_REQUIRE(numbers.size() == 5U);
  BOOST_TEST(tree.integer(numbers[0]) == 1);
  BOOST_TEST(tree.real(numbers[1]) == 2.5);
  BOOST_TEST(tree.boolean(numbers[2]));
  BOOST_TEST(tree.text(numbers[3]) == "three");
  BOOST_TEST(tree.integer(numbers[4]) == int64_t{1} << 40);
  BOOST_TEST((tree.kind(value("pair")) == pickle_kind::tuple));
  const auto shape = check_ok(file->shape(value("shape")));
  BOOST_TEST((*shape == std::vector<int64_t>{3, 4}));
  BOOST_TEST(tree.is_global(value("type"), "torch", "float16"));
  BOOST_TEST(tree.text(tree.find(value("state"), int64_t{7}).value()) == "seventh");
  BOOST_TEST(tree.items(value("empty")).empty());
}

BOOST_AUTO_TEST_CASE(no_file_is_larger_than_its_tensors) {
  const scratch_folder at;
  const auto data = noise(24 * 4, 7);
  const auto written = [&](const torch_view& view, uint64_t numel) {
    return write_torch_archive(at / "a.pt", view, std::vector<torch_storage>{{dtype::f32, numel, data, {}}});
  };
  const auto bug = core::error_kind::bug;
  check_failed(written({0, 0, {20}}, 24), bug, "no tensor shows element 20");
  check_failed(written({0, 4, {20}}, 24), bug, "no tensor shows element 0");
  check_failed(written({0, 4, {21}}, 24), bug, "exceeds storage 0");
  check_failed(written({1, 0, {24}}, 24), bug, "there are 1");
  check_failed(written({0, 0, {24}}, 23), bug, "other bytes");
  BOOST_TEST(files_in(at.path()) == 0U);
  check_ok(written({0, 0, {4, 6}}, 24));
}

BOOST_AUTO_TEST_SUITE_END()
