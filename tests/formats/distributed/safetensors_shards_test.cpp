// Tests folders of PyTorch's HuggingFaceStorageWriter: one that PyTorch saved on a mesh
// (tests/peer/troupe_resumes_distributed.py), and small ones that the test makes.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "checkpoint/convert/open_source.hpp"
#include "formats/compressed/source.hpp"
#include "formats/report/verify.hpp"
#include "tests/formats/mutations.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(safetensors_shards)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
namespace fs = std::filesystem;
using core::dtype;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/distributed";

/// Writes the file of one rank, with rows of one matrix.
void write_shard(const scratch_folder& at, int number, const owned_tensor& t, const std::string& info) {
  const std::vector<tensor_to_write> all{t.to_write()};
  std::vector<const tensor_to_write*> listed{&all[0]};
  auto file =
      check_ok(prepare_safetensors(at / fmt::format("shard-{:05}-model-00001-of-00001.safetensors", number), listed,
                                   info.empty() ? string_map{} : string_map{{"DCP_SHARDING_INFO", info}}));
  check_ok(file->commit());
}

void check_refused(const std::string& second, const std::string& words, std::vector<int64_t> shape = {3, 2},
                   int number = 2, dtype type = dtype::f32) {
  const scratch_folder at;
  write_shard(at, 1, {"w", dtype::f32, {2, 2}}, R"({"w": {"saved_offsets": [0, 0]}})");
  write_shard(at, number, {"w", type, std::move(shape)}, second);
  check_failed(open_source(at.path()), error_kind::bad_input, words);
}

}  // namespace

BOOST_AUTO_TEST_CASE(shards_of_a_mesh_and_what_they_were_consolidated_to_have_pytorchs_weights) {
  const auto wanted = check_ok(hugging_face_format.open(fixtures / "llama_2d.safetensors", {}));
  for (const char* name : {"llama_2d_hf", "llama_2d_hf/sharded"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto got = check_ok(open_source(fixtures / name));
    BOOST_TEST(got->tensors.size() == 12U);
    for (const auto& t : got->tensors) {
      const auto* w = find_tensor(*wanted, t.name, tensor_kind::weight);
      BOOST_REQUIRE_MESSAGE(w != nullptr, shown(t));
      BOOST_TEST((t.kind == tensor_kind::weight && w->shape == t.shape && bytes_in(*got, t) == bytes_in(*wanted, *w)),
                 shown(t));
    }
    BOOST_TEST(!got->run.steps.has_value());
    const auto checked = check_ok(verify_source(real_files(), *got));
    BOOST_TEST(checked->damages == 0U);
  }
}

BOOST_AUTO_TEST_CASE(states_of_an_optimizer_go_to_their_parameters) {
  const scratch_folder at;
  for (int i = 1; i <= 2; ++i) {
    const owned_tensor w("model.w", dtype::f32, {2, 2}), m("optim.state.w.exp_avg", dtype::f32, {2, 2});
    const std::vector<tensor_to_write> all{w.to_write(), m.to_write()};
    const std::vector<const tensor_to_write*> listed{&all[0], &all[1]};
    const auto offsets = fmt::format(R"({{"saved_offsets": [{}, 0]}})", 2 * (i - 1));
    auto file = prepare_safetensors(
        at / fmt::format("shard-{:05}-model-00001-of-00001.safetensors", i), listed,
        string_map{
            {"DCP_SHARDING_INFO", fmt::format(R"({{"model.w": {}, "optim.state.w.exp_avg": {}}})", offsets, offsets)}});
    check_ok(file);
    check_ok(file->commit());
  }
  const auto got = check_ok(open_source(at.path()));
  BOOST_TEST(find_tensor(*got, "w", tensor_kind::master) != nullptr);
  BOOST_TEST(find_tensor(*got, "w", tensor_kind::moment, "exp_avg") != nullptr);
}

BOOST_AUTO_TEST_CASE(a_weight_whose_name_begins_like_an_optimizers_takes_no_part_of_others) {
  const scratch_folder at;
  write_shard(at, 1, {"optim.weight", dtype::f32, {2, 2}}, R"({"optim.weight": {"saved_offsets": [0, 0]}})");
  write_shard(at, 2, {"model.w", dtype::f32, {2, 2}}, R"({"model.w": {"saved_offsets": [0, 0]}})");
  const auto got = check_ok(open_source(at.path()));
  BOOST_TEST(find_tensor(*got, "optim.weight", tensor_kind::weight) != nullptr);
  BOOST_TEST(find_tensor(*got, "model.w", tensor_kind::weight) != nullptr);
}

BOOST_AUTO_TEST_CASE(numbers_of_8_bits_are_left_out_and_the_others_read) {
  const scratch_folder at;
  write_shard(at, 1, {"w", dtype::f32, {2, 2}}, R"({"w": {"saved_offsets": [0, 0]}})");
  const owned_tensor codes("c", dtype::u8, {4});
  auto coded = codes.to_write();
  coded.is_e4m3 = true;
  const std::vector<const tensor_to_write*> listed{&coded};
  auto file = prepare_safetensors(at / "shard-00002-model-00001-of-00001.safetensors", listed,
                                  {{"DCP_SHARDING_INFO", R"({"c": {"saved_offsets": [0]}})"}});
  check_ok(file);
  check_ok(file->commit());
  const auto got = check_ok(open_source(at.path()));
  BOOST_TEST(got->tensors.size() == 1U);
  BOOST_REQUIRE(got->remarks.size() == 1U);
  BOOST_TEST(got->remarks[0].starts_with("left out: 'c' of F8_E4M3: "), got->remarks[0]);
}

BOOST_AUTO_TEST_CASE(shards_that_do_not_make_a_tensor_are_refused_by_name) {
  check_refused(R"({"w": {"saved_offsets": [1, 0]}})", "overlaps");
  check_refused(R"({"w": {"saved_offsets": [3, 0]}})", "no piece holds");
  check_refused(R"({"w": {"saved_offsets": [0, 0]}})", "two chunks begin at element (0, 0)");
  check_refused(R"({"w": {"saved_offsets": [2, 0]}})", "shard 2 are missing", {3, 2}, 3);
  check_refused(R"({"w": {"saved_offsets": [2, 0]}})", "it is bf16 of 2 dimensions here and fp32", {3, 2}, 2,
                dtype::bf16);
  check_refused(R"({"w": {"saved_offsets": [2]}})", "requires 2 whole numbers as saved_offsets");
  check_refused(R"({"w": {"saved_offsets": [-2, 0]}})", "requires 2 whole numbers as saved_offsets");
  check_refused(R"({"w": {"saved_offsets": [9223372036854775807, 0]}})", "its offset is too large for any tensor");
  check_refused(R"({"v": {"saved_offsets": [2, 0]}})", "'w': DCP_SHARDING_INFO requires");
  check_refused(R"([])", "an object was wanted");
  check_refused("{", "broken JSON");
  check_refused("", "has no DCP_SHARDING_INFO with the positions of its tensors");
}

BOOST_AUTO_TEST_CASE(damaged_shards_are_read_or_refused) {
  const scratch_folder at;
  fs::copy(fixtures / "llama_2d_hf/sharded", at / "ck");
  const std::string name = "ck/shard-00002-model-00001-of-00001.safetensors";
  const auto good = scratch_folder::read(at / name);
  size_t read = 0;
  for_mutations(good, 24, json_hints, [&](size_t, const std::string& broken) {
    fs::remove(at / name);
    at.write(name, broken);
    const auto source = open_source(at / "ck");
    if (!source) return;
    ++read;
    for (const auto& t : source->tensors) BOOST_TEST(bytes_in(*source, t).size() == bytes_of(t.type, t.shape).value());
  });
  BOOST_TEST(read < mutations());
}

BOOST_AUTO_TEST_SUITE_END()
