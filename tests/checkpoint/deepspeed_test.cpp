// Folders of the real DeepSpeed (tests/peer/make_checkpoint_fixtures.py) against its own converter and its own
// optimizer, byte for byte.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "checkpoint/deepspeed_consolidate.hpp"
#include "checkpoint/deepspeed_folder.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/torch_archive.hpp"
#include "checkpoint/weights_folder.hpp"
#include "tests/checkpoint/tensors.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(TROUPE_SOURCE_DIR) / "tests/checkpoint/fixtures/deepspeed";
const std::vector<std::string> cases = {"stage1_fp32", "stage1_bf16", "stage2_bf16",       "stage2_fp16",
                                        "stage3_fp32", "stage3_bf16", "stage2_fp32_legacy"};

fs::path copied(const std::string& name, const scratch_folder& at) {
  fs::copy(fixtures / name, at / name, fs::copy_options::recursive);
  return at / name;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(deepspeed)

BOOST_AUTO_TEST_CASE(weights_are_what_its_own_converter_makes) {
  for (const auto& name : cases) {
    const scratch_folder at;
    const auto index = read_deepspeed_folder(fixtures / name);
    check_ok(index);
    BOOST_TEST(index->ranks == 2U);
    check_ok(consolidate_to_fp32(*index, at / "out", {name == "stage2_bf16" ? 200 : default_shard_bytes, false}));
    const auto ours = weights_folder::open(at / "out");
    const auto theirs = safetensors_file::open(fixtures / (name + ".safetensors"));
    check_ok(ours);
    check_ok(theirs);
    for (const auto& entry : theirs->entries()) {
      const auto mine = ours->find(entry.name);
      BOOST_REQUIRE_MESSAGE(mine.has_value(), name << " lacks " << entry.name);
      BOOST_TEST((mine->entry->type == entry.type && mine->entry->shape == entry.shape), name << ": " << entry.name);
      BOOST_TEST(same_bytes(mine->bytes(), theirs->bytes(entry)), name << ": " << entry.name);
    }
    // its converter forgets the frozen weights of stage 1
    const size_t forgotten = theirs->find("frozen.weight") == nullptr ? 1 : 0;
    BOOST_TEST(forgotten == (name.starts_with("stage1") ? 1U : 0U));
    BOOST_TEST(ours->tensors().size() == theirs->entries().size() + forgotten);
  }
}

BOOST_AUTO_TEST_CASE(moments_are_those_of_the_running_optimizer) {
  for (const auto& name : cases) {
    const auto index = read_deepspeed_folder(fixtures / name);
    const auto theirs = safetensors_file::open(fixtures / (name + ".moments.safetensors"));
    check_ok(index);
    check_ok(theirs);
    piece_reader reader(*index);
    size_t compared = 0;
    for (const auto& tensor : index->tensors)
      for (const auto& state : tensor.states) {
        const auto* entry = theirs->find(state.kind + "/" + tensor.name);
        if (entry == nullptr) continue;
        std::vector<std::byte> bytes(entry->end - entry->begin);
        check_ok(reader.read(state, 0, bytes));
        BOOST_TEST(same_bytes(bytes, theirs->bytes(*entry)), name << ": " << entry->name);
        ++compared;
      }
    BOOST_TEST(compared == theirs->entries().size(), name);
  }
}

BOOST_AUTO_TEST_CASE(a_tag_its_folder_and_latest_name_the_same) {
  const auto by_latest = read_deepspeed_folder(fixtures / "stage2_bf16");
  const auto by_tag = read_deepspeed_folder(fixtures / "stage2_bf16", "step2");
  const auto by_folder = read_deepspeed_folder(fixtures / "stage2_bf16" / "step2");
  check_ok(by_latest);
  check_ok(by_tag);
  check_ok(by_folder);
  BOOST_TEST(by_latest->files == by_tag->files);
  BOOST_TEST(by_latest->files == by_folder->files);
  BOOST_TEST(by_latest->stage == 2);
}

BOOST_AUTO_TEST_CASE(roles_are_told_apart_and_frozen_ones_can_stay_out) {
  const scratch_folder at;
  const auto index = read_deepspeed_folder(fixtures / "stage3_bf16");
  check_ok(index);
  const auto role = [&](std::string_view name) {
    return std::ranges::find(index->tensors, name, &deepspeed_tensor::name)->role;
  };
  BOOST_TEST((role("offset") == deepspeed_role::buffer));
  BOOST_TEST((role("frozen.weight") == deepspeed_role::frozen));
  BOOST_TEST((role("scale") == deepspeed_role::trainable));
  BOOST_TEST((role("head.weight") == deepspeed_role::shared));
  check_ok(consolidate_to_fp32(*index, at / "out", {default_shard_bytes, true}));
  const auto out = weights_folder::open(at / "out");
  check_ok(out);
  BOOST_TEST(!out->find("frozen.weight").has_value());
  BOOST_TEST(out->find("head.weight").has_value());
}

BOOST_AUTO_TEST_CASE(broken_folders_are_refused_with_the_reason) {
  const scratch_folder at;
  const auto bad = core::error_kind::bad_input;
  check_failed(read_deepspeed_folder(at / "none"), bad, "cannot read the folder");
  fs::create_directories(at / "empty");
  check_failed(read_deepspeed_folder(at / "empty"), bad, "not a DeepSpeed checkpoint");
  const auto folder = copied("stage2_bf16", at);
  check_failed(read_deepspeed_folder(folder, "../stage2_bf16"), bad, "is no name of a checkpoint");
  check_failed(read_deepspeed_folder(folder, "step3"), bad, "cannot read the folder");
  fs::remove(folder / "step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
  check_failed(read_deepspeed_folder(folder), bad, "one of 2 shards, 1 are there");
  fs::remove(folder / "step2/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt");
  check_failed(read_deepspeed_folder(folder), bad, "no '*_optim_states.pt'");
  const auto mixed = copied("stage3_fp32", at);
  fs::copy_file(fixtures / "stage3_bf16/step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
                mixed / "step2/zero_pp_rank_1_mp_rank_00_optim_states.pt", fs::copy_options::overwrite_existing);
  const auto read = read_deepspeed_folder(mixed);
  check_ok(read);  // the same layout, so only the bytes differ
  fs::copy_file(fixtures / "stage2_fp16/step2/zero_pp_rank_1_mp_rank_00_optim_states.pt",
                mixed / "step2/zero_pp_rank_1_mp_rank_00_optim_states.pt", fs::copy_options::overwrite_existing);
  check_failed(read_deepspeed_folder(mixed), bad, "its ZeRO stage is 2, 3 was wanted");
  fs::copy_file(mixed / "step2/zero_pp_rank_0_mp_rank_00_model_states.pt", mixed / "step2/layer_00_model_states.pt");
  check_failed(read_deepspeed_folder(mixed), bad, "pipeline");
}

BOOST_AUTO_TEST_CASE(every_floating_type_widens_to_the_float_it_means) {
  const auto one = [](core::dtype type, uint64_t bits) {
    float out = -1;
    widen_to_fp32(type, std::as_bytes(std::span(&bits, 1)).first(core::size_of(type)),
                  std::as_writable_bytes(std::span(&out, 1)));
    return out;
  };
  BOOST_TEST(one(core::dtype::f16, 0x3C00) == 1.0F);
  BOOST_TEST(one(core::dtype::f16, 0xC500) == -5.0F);
  BOOST_TEST(one(core::dtype::f16, 0x0001) == 0x1p-24F);
  BOOST_TEST(one(core::dtype::f16, 0x83FF) == -0x3FFp-24F);
  BOOST_TEST(one(core::dtype::f16, 0x7C00) == std::numeric_limits<float>::infinity());
  BOOST_TEST(one(core::dtype::f16, 0x7BFF) == 65504.0F);
  BOOST_TEST(one(core::dtype::bf16, 0x4049) == 3.140625F);
  BOOST_TEST(one(core::dtype::f64, std::bit_cast<uint64_t>(0.1)) == 0.1F);
}

BOOST_AUTO_TEST_CASE(every_name_in_its_files_is_understood) {
  for (const auto& name : cases)
    for (const auto& entry : fs::directory_iterator(fixtures / name / "step2")) {
      const auto file = torch_archive::open(entry.path());
      check_ok(file);
      const auto unknown = file->unknown_globals();
      BOOST_TEST(unknown.empty(), entry.path().string() << ": " << (unknown.empty() ? "" : unknown.front()));
    }
}

BOOST_AUTO_TEST_SUITE_END()
