// Tests Hugging Face folders: a single file, shards, and an index, whose statements must be checked.
#include "formats/safetensors/weights_folder.hpp"

#include <fmt/format.h>

#include "checkpoint/convert/open_source.hpp"
#include "formats/safetensors/weights_index.hpp"
#include "formats/torch/archive_writer.hpp"
#include "tests/file_size_limit.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(weights_folder)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
using core::dtype;
namespace fs = std::filesystem;

namespace {

std::vector<owned_tensor> model() {
  return {{"wte.weight", dtype::f32, {100, 10}}, {"h.0.weight", dtype::f32, {30, 10}}, {"h.0.bias", dtype::f32, {30}},
          {"h.1.weight", dtype::bf16, {30, 10}}, {"h.1.bias", dtype::f32, {30}},       {"ln.weight", dtype::f32, {10}}};
}

void check_holds(const fs::path& path, const std::vector<owned_tensor>& tensors) {
  const auto folder = check_ok(weights_folder::open(path));
  BOOST_TEST(folder->tensors().size() == tensors.size());
  for (const auto& t : tensors) {
    const auto found = folder->find(t.name);
    BOOST_REQUIRE_MESSAGE(found.has_value(), t.name);
    BOOST_TEST((found->entry->shape == t.shape));
    BOOST_TEST(same_bytes(found->bytes().value(), t.data), t.name);
    BOOST_TEST((found->entry->type == t.type));
  }
  BOOST_TEST(!folder->find("nothing").has_value());
  BOOST_TEST((folder->tensors().front().file->metadata() == pytorch_metadata));
}

/// Writes a folder with the shards a.safetensors (tensor "a") and b.safetensors (tensor "b") and the given weight_map.
void write_indexed(const scratch_folder& at, const std::string& weight_map) {
  for (const std::string name : {"a", "b"})
    check_ok(write_safetensors(at / (name + ".safetensors"), all_to_write({{name, dtype::f32, {2}}})));
  at.write(index_file_name, R"({"weight_map":)" + weight_map + "}");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_small_model_is_one_file_without_index) {
  const scratch_folder at;
  check_ok(write_weights_folder(at / "out", all_to_write(model())));
  BOOST_TEST(files_in(at / "out") == 1U);
  check_holds(at / "out", model());
  check_holds(at / "out" / single_file_name, model());
}

BOOST_AUTO_TEST_CASE(a_larger_one_is_cut_into_shards_with_an_index) {
  const scratch_folder at;
  check_ok(write_weights_folder(at / "out", all_to_write(model()), 1500));
  check_holds(at / "out", model());
  const auto text = scratch_folder::read(at / "out" / index_file_name);
  // The sum of the tensors' bytes: 4000 + 1200 + 120 + 600 + 120 + 40.
  BOOST_TEST(text.find("\"total_size\": 6080") != std::string::npos, text);
  const auto index = check_ok(parse_weights_index(text));
  const auto shard = [](int n) { return fmt::format("model-0000{}-of-00003.safetensors", n); };
  BOOST_TEST((*index == weight_map{{"h.0.bias", shard(2)},
                                   {"h.0.weight", shard(2)},
                                   {"h.1.bias", shard(3)},
                                   {"h.1.weight", shard(3)},
                                   {"ln.weight", shard(3)},
                                   {"wte.weight", shard(1)}}));
  BOOST_TEST(files_in(at / "out") == 4U);
}

BOOST_AUTO_TEST_CASE(shards_follow_hugging_face_s_rule) {
  const auto plan = [](std::vector<uint64_t> sizes, uint64_t limit) { return plan_shards(sizes, limit); };
  using shards = std::vector<std::vector<size_t>>;
  BOOST_TEST((plan({4, 4, 4}, 8) == shards{{0, 1}, {2}}));
  // A tensor larger than the limit gets a file of its own, and later tensors are still added to the file before it.
  BOOST_TEST((plan({4, 9, 4, 1}, 8) == shards{{1}, {0, 2}, {3}}));
  BOOST_TEST((plan({0, 0}, 0) == shards{{0, 1}}));
  BOOST_TEST((plan({}, 8) == shards{{}}));
}

BOOST_AUTO_TEST_CASE(a_new_export_replaces_an_old_one_of_another_form) {
  const scratch_folder at;
  auto old = model();
  old[0].data[0] ^= std::byte{1};
  for (const uint64_t before : {uint64_t{1500}, default_shard_bytes})
    for (const uint64_t after : {uint64_t{1500}, uint64_t{700}, default_shard_bytes}) {
      BOOST_TEST_INFO_SCOPE("after " << after);
      BOOST_TEST_INFO_SCOPE("before " << before);
      check_ok(write_weights_folder(at / "out", all_to_write(old), before));
      check_ok(write_weights_folder(at / "out", all_to_write(model()), after));
      check_holds(at / "out", model());
      BOOST_TEST(files_in(at / "out") == (after == default_shard_bytes ? 1U : after == 700 ? 6U : 4U));
    }
}

BOOST_AUTO_TEST_CASE(an_export_into_a_folder_with_weights_under_other_names_is_refused_and_changes_nothing) {
  for (const std::string other : {"model.fp16.safetensors.index.json", "model.safetensors.index.fp16.json",
                                  "pytorch_model.bin.index.json", "pytorch_model.bin"})
    for (const uint64_t shard_bytes : {uint64_t{1500}, default_shard_bytes}) {
      BOOST_TEST_INFO_SCOPE("shard bytes " << shard_bytes);
      BOOST_TEST_INFO_SCOPE(other);
      const scratch_folder at;
      check_ok(write_weights_folder(at / "out", all_to_write(model()), 1500));
      fs::rename(at / "out" / index_file_name, at / "out" / other);
      check_failed(write_weights_folder(at / "out", all_to_write(model()), shard_bytes), error_kind::bad_input,
                   (at / "out" / other).string() + "' names weights that this export does not replace");
      BOOST_TEST(files_in(at / "out") == 4U);
    }
}

BOOST_AUTO_TEST_CASE(an_export_removes_no_file_that_it_could_not_have_written) {
  const scratch_folder at;
  const std::vector<std::string> kept{"model-00001-of-00002.bin", "model-1-of-2.safetensors",
                                      "model-00001-of-0000x.safetensors", "adapter_model.safetensors", "config.json"};
  for (const auto& name : kept) at.write("out/" + name, "mine");
  at.write("out/model-00007-of-00009.safetensors", "of an earlier export");
  check_ok(write_weights_folder(at / "out", all_to_write(model())));
  for (const auto& name : kept) BOOST_TEST(fs::exists(at / "out" / name), name);
  BOOST_TEST(files_in(at / "out") == kept.size() + 1);
}

BOOST_AUTO_TEST_CASE(an_export_that_fails_leaves_the_old_one_or_nothing) {
  const scratch_folder at;
  auto larger = model();
  larger.emplace_back("z.last", dtype::f32, std::vector<int64_t>{100'000});
  const auto write_on_full_disk = [&](const char* name) {
    const file_size_limit full(65'536);
    return write_weights_folder(at / name, all_to_write(larger), 1500);
  };
  check_failed(write_on_full_disk("new"), error_kind::no_space, "model-00003-of-00004.safetensors");
  BOOST_TEST(!fs::exists(at / "new"));
  check_ok(write_weights_folder(at / "old", all_to_write(model()), 1500));
  check_failed(write_on_full_disk("old"), error_kind::no_space, "cannot write");
  check_holds(at / "old", model());
  BOOST_TEST(files_in(at / "old") == 4U);
}

BOOST_AUTO_TEST_CASE(a_tensor_twice_or_too_many_files_is_refused) {
  const scratch_folder at;
  auto tensors = model();
  tensors.push_back(tensors.front());
  check_failed(write_weights_folder(at / "out", all_to_write(tensors), 1500), error_kind::bad_input,
               "'wte.weight' twice");
  std::vector<owned_tensor> many;
  for (size_t i = 0; i <= max_shards; ++i) many.emplace_back(fmt::to_string(i), dtype::u8, std::vector<int64_t>{1});
  check_failed(write_weights_folder(at / "out", all_to_write(many), 1), error_kind::limit, "at most 4096");
  BOOST_TEST(!fs::exists(at / "out"));
}

BOOST_AUTO_TEST_CASE(a_folder_without_weights_is_refused) {
  const scratch_folder at;
  check_failed(formats::weights_folder::open(at.path()), error_kind::bad_input,
               "holds neither model.safetensors nor model.safetensors.index.json");
  check_failed(formats::weights_folder::open(at / "missing"), error_kind::bad_input, "No such file");
}

BOOST_AUTO_TEST_CASE(an_index_must_name_files_of_its_own_folder) {
  const scratch_folder at;
  const auto refused = [&](const std::string& file, const std::string& words) {
    const scratch_folder inner;
    write_indexed(inner, R"({"a":"a.safetensors","b":")" + file + "\"}");
    const auto folder = formats::weights_folder::open(inner.path());
    check_failed(folder, error_kind::bad_input, words);
  };
  check_ok(write_safetensors(at / "outside.safetensors", all_to_write({{"b", dtype::f32, {2}}})));
  refused((at / "outside.safetensors").string(), "not a file of its folder");
  refused("../" + at.path().filename().string() + "/outside.safetensors", "not a file of its folder");
  refused("sub/../../x.safetensors", "not a file of its folder");
  refused("", "not a file of its folder");
  refused("sub/", "not a file of its folder");
  refused(R"(b.safetensors\u0000x)", "not a file of its folder");
  refused("missing.safetensors", "No such file");
  refused("a.safetensors", "tensor 'b' in 'a.safetensors', which does not contain it");
}

BOOST_AUTO_TEST_CASE(a_link_out_of_the_folder_is_refused) {
  const scratch_folder outside;
  const scratch_folder at;
  write_indexed(at, R"({"a":"a.safetensors","b":"b.safetensors"})");
  fs::rename(at / "b.safetensors", outside / "b.safetensors");
  fs::create_symlink(outside / "b.safetensors", at / "b.safetensors");
  check_failed(formats::weights_folder::open(at.path()), error_kind::bad_input, "a link that leads out of the folder");
  fs::remove(at / "b.safetensors");
  fs::create_directory_symlink(outside.path(), at / "sub");
  at.write(index_file_name, R"({"weight_map":{"a":"a.safetensors","b":"sub/b.safetensors"}})");
  check_failed(formats::weights_folder::open(at.path()), error_kind::bad_input, "a link that leads out of the folder");
}

BOOST_AUTO_TEST_CASE(links_inside_and_those_of_the_hub_s_cache_are_followed) {
  const scratch_folder at;
  write_indexed(at, R"({"a":"a.safetensors","b":"link.safetensors"})");
  fs::create_symlink("b.safetensors", at / "link.safetensors");
  check_ok(formats::weights_folder::open(at.path()));

  const auto revision = at / "models--x" / "snapshots" / "0123";
  fs::create_directories(revision);
  fs::create_directories(at / "models--x" / "blobs");
  fs::rename(at / "a.safetensors", at / "models--x" / "blobs" / "aaaa");
  fs::rename(at / "b.safetensors", at / "models--x" / "blobs" / "bbbb");
  fs::create_symlink("../../blobs/aaaa", revision / "a.safetensors");
  fs::create_symlink("../../blobs/bbbb", revision / "b.safetensors");
  at.write("models--x/snapshots/0123/model.safetensors.index.json",
           R"({"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})");
  check_ok(formats::weights_folder::open(revision));
}

BOOST_AUTO_TEST_CASE(an_index_that_is_no_index_is_refused) {
  const auto refused = [](const std::string& text, const std::string& words) {
    check_failed(parse_weights_index(text), error_kind::bad_input, words);
  };
  refused("", "JSON is broken");
  refused("[]", "an object was wanted");
  refused("{}", "no weight_map");
  refused(R"({"weight_map":[]})", "must be an object");
  refused(R"({"weight_map":{"a":1}})", "tensor 'a': a file's name was wanted");
  refused(R"({"weight_map":{"a":{}}})", "tensor 'a': a file's name was wanted");
  refused(R"({"weight_map":{"a":"f","a":"f"}})", "tensor 'a' appears twice");
  refused(R"({"weight_map":{},"weight_map":{}})", "the key 'weight_map' appears twice");
  refused(R"({"metadata":)" + std::string(100'000, '['), "nests deeper than 64");
  refused("{\"weight_map\":" + std::string(100'000, '{'), "JSON is broken");
  const scratch_folder at;
  write_indexed(at, "{}");
  check_failed(formats::weights_folder::open(at.path()), error_kind::bad_input, "does not list any tensors");
}

BOOST_AUTO_TEST_CASE(an_index_of_another_name_is_taken_where_it_is_the_only_one) {
  const std::string text = R"({"weight_map":{"a":"1.safetensors"}})";
  const scratch_folder at;
  check_ok(write_safetensors(at / "1.safetensors", all_to_write({{"a", dtype::f32, {2}}})));
  at.write("model.safetensors.index.fp16.json", text);
  const auto folder = check_ok(checkpoint::open_source(at.path()));
  BOOST_TEST(folder->tensors.size() == 1U);
  at.write("other.safetensors.index.json", text);
  check_failed(checkpoint::open_source(at.path()), error_kind::bad_input, "is not a checkpoint");
  const scratch_folder bin;
  check_ok(formats::write_torch_archive(bin / "1.bin", all_to_write({{"a", dtype::f32, {2}}})));
  bin.write("pytorch_model.bin.index.fp16.json", R"({"weight_map":{"a":"1.bin"}})");
  check_ok(checkpoint::open_source(bin.path()));
}

BOOST_AUTO_TEST_CASE(a_tensor_in_two_files_is_taken_from_the_one_that_the_index_names_or_refused) {
  const scratch_folder at;
  const owned_tensor shared("shared", dtype::f32, {3});
  owned_tensor stale = shared;
  stale.data[0] ^= std::byte{1};
  check_ok(write_safetensors(at / "1.safetensors", all_to_write({{"a", dtype::f32, {2}}, shared})));
  check_ok(write_safetensors(at / "2.safetensors", all_to_write({{"b", dtype::f32, {2}}, stale})));
  at.write(index_file_name, R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors","shared":"1.safetensors"}})");
  const auto folder = check_ok(formats::weights_folder::open(at.path()));
  BOOST_TEST(same_bytes(folder->find("shared")->bytes().value(), shared.data));
  at.write(index_file_name, R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  check_failed(formats::weights_folder::open(at.path()), error_kind::bad_input, "two files hold tensor 'shared'");
}

BOOST_AUTO_TEST_SUITE_END()
