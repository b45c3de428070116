// Compares folders written by the real DeepSpeed (tests/peer/make_checkpoint_fixtures.py) with the output of its own
// converter and its own optimizer, byte for byte.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "checkpoint/convert/open_source.hpp"
#include "checkpoint/convert/weights_export.hpp"
#include "core/tensor_view.hpp"
#include "formats/deepspeed/source.hpp"
#include "formats/deepspeed/universal_source.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/archive.hpp"
#include "tests/formats/newest_in.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(deepspeed)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed";
const std::vector<std::string> cases = {"stage1_fp32",        "stage1_bf16",        "stage2_bf16",
                                        "stage2_fp16",        "stage3_fp32",        "stage3_bf16",
                                        "stage2_fp32_legacy", "stage2_round_robin", "stage1_elastic"};

fs::path copied(const std::string& name, const scratch_folder& at) {
  fs::copy(fixtures / name, at / name, fs::copy_options::recursive);
  return at / name;
}

std::vector<std::byte> bytes_of(const tensor_source& source, const tensor_entry& t, core::dtype as) {
  std::vector<std::byte> out(core::numel_of(t.shape) * core::size_of(as));
  source_reader reader(source);
  check_ok(reader.read_as(as, t, 0, core::numel_of(t.shape), out));
  return out;
}

/// Checks that every tensor of `a` of the given kinds is in `b`, with equal bits.
void check_same(const tensor_source& a, const tensor_source& b, const std::vector<tensor_kind>& kinds) {
  for (const auto& t : a.tensors) {
    if (std::ranges::find(kinds, t.kind) == kinds.end()) continue;
    const auto* other = find_tensor(b, t.name, t.kind, t.moment);
    BOOST_REQUIRE_MESSAGE(other != nullptr, b.folder.string() << " lacks " << shown(t));
    BOOST_TEST((t.shape == other->shape && t.type == other->type), shown(t));
    BOOST_TEST((bytes_of(a, t, t.type) == bytes_of(b, *other, t.type)), shown(t));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_equal_those_of_its_own_converter) {
  for (const auto& name : cases) {
    const scratch_folder at;
    const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / name)));
    weights_export_options options{.out = at / "out"};
    if (name == "stage2_bf16") options.max_shard_bytes = 200;
    check_ok(export_weights(*source, options));
    const auto ours = weights_folder::open(at / "out");
    const auto theirs = safetensors_file::open(fixtures / (name + ".safetensors"));
    check_ok(ours);
    check_ok(theirs);
    for (const auto& entry : theirs->entries()) {
      const auto mine = ours->find(entry.name);
      BOOST_REQUIRE_MESSAGE(mine.has_value(), name << " lacks " << entry.name);
      BOOST_TEST((mine->entry->type == entry.type && mine->entry->shape == entry.shape), name << ": " << entry.name);
      BOOST_TEST(same_bytes(mine->bytes().value(), theirs->bytes(entry).value()), name << ": " << entry.name);
    }
    // DeepSpeed's converter omits the frozen weights of stage 1.
    const size_t forgotten = theirs->find("frozen.weight") == nullptr ? 1 : 0;
    BOOST_TEST(forgotten == (name.starts_with("stage1") ? 1U : 0U));
    BOOST_TEST(ours->tensors().size() == theirs->entries().size() + forgotten);
  }
}

BOOST_AUTO_TEST_CASE(moments_are_those_of_the_running_optimizer) {
  for (const auto& name : cases) {
    // DeepSpeed assigns these weights in the order before its own shuffling.
    if (name == "stage2_round_robin") continue;
    const auto source = read_deepspeed_source(newest_in(fixtures / name));
    const auto theirs = safetensors_file::open(fixtures / (name + ".moments.safetensors"));
    check_ok(source);
    check_ok(theirs);
    source_reader reader(*source);
    size_t compared = 0;
    for (const auto& tensor : source->tensors) {
      const auto* entry = theirs->find(tensor.moment + "/" + tensor.name);
      if (entry == nullptr) continue;
      BOOST_TEST((tensor.type == entry->type && tensor.shape == entry->shape), name << ": " << entry->name);
      std::vector<std::byte> bytes(entry->end - entry->begin);
      check_ok(reader.read(tensor, 0, core::numel_of(tensor.shape), bytes));
      BOOST_TEST(same_bytes(bytes, theirs->bytes(*entry).value()), name << ": " << entry->name);
      ++compared;
    }
    BOOST_TEST(compared == theirs->entries().size(), name);
  }
}

BOOST_AUTO_TEST_CASE(layouts_that_its_converter_refuses_equal_the_running_optimizers) {
  for (const std::string name : {"stage0_fp32", "stage0_bf16", "stage0_fp16", "stage1_grad_fp32"}) {
    const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / name)));
    const auto masters = safetensors_file::open(fixtures / (name + ".safetensors"));
    const auto moments = safetensors_file::open(fixtures / (name + ".moments.safetensors"));
    check_ok(masters);
    check_ok(moments);
    size_t compared = 0;
    for (const auto& t : source->tensors) {
      const bool is_moment = t.kind == tensor_kind::moment;
      if (!is_moment && t.kind != tensor_kind::master) continue;
      const auto& file = is_moment ? *moments : *masters;
      const auto* entry = file.find(is_moment ? t.moment + "/" + t.name : t.name);
      BOOST_REQUIRE_MESSAGE(entry != nullptr, name << ": " << shown(t));
      BOOST_TEST(same_bytes(bytes_of(*source, t, entry->type), file.bytes(*entry).value()), name << ": " << shown(t));
      ++compared;
    }
    BOOST_TEST(compared == 3 * 8U, name);
    BOOST_TEST((find_tensor(*source, "frozen.weight", tensor_kind::frozen) != nullptr), name);
    BOOST_TEST((source->tied == std::vector<tied_name>{{"head.weight", "embed.weight"}}), name);
  }
}

BOOST_AUTO_TEST_CASE(second_names_of_frozen_and_of_trained_parameters_are_there_at_every_stage) {
  const std::vector<tied_name> wanted{{"head.weight", "embed.weight"}, {"twin.weight", "first.weight"}};
  for (const std::string stage : {"stage0", "stage1", "stage2", "stage3"}) BOOST_TEST_CONTEXT(stage) {
      const auto name = stage + "_frozen_tied";
      const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / name)));
      BOOST_TEST((source->tied == wanted));
      BOOST_TEST((find_tensor(*source, "head.weight", tensor_kind::frozen) != nullptr));
      BOOST_TEST((find_tensor(*source, "twin.weight", tensor_kind::master) != nullptr));
      const scratch_folder at;
      check_ok(export_weights(*source, {.out = at / "out.safetensors"}));
      const auto ours = safetensors_file::open(at / "out.safetensors");
      const auto theirs = safetensors_file::open(fixtures / (name + ".safetensors"));
      check_ok(ours);
      check_ok(theirs);
      BOOST_TEST(ours->entries().size() == 6U);
      BOOST_TEST(theirs->entries().size() == 6U);
      for (const auto& entry : theirs->entries()) {
        const auto* mine = ours->find(entry.name);
        BOOST_REQUIRE_MESSAGE(mine != nullptr, entry.name);
        BOOST_TEST((mine->type == entry.type && mine->shape == entry.shape), entry.name);
        BOOST_TEST(same_bytes(ours->bytes(*mine).value(), theirs->bytes(entry).value()), entry.name);
      }
    }
}

BOOST_AUTO_TEST_CASE(tensor_parallel_ranks_join_as_its_universal_converter_joins_them) {
  const auto source = read_deepspeed_source(newest_in(fixtures / "tensor_parallel"));
  const auto universal = read_universal_source(newest_in(fixtures / "universal_tensor_parallel", "latest_universal"));
  check_ok(source);
  check_ok(universal);
  BOOST_TEST(source->format == "DeepSpeed ZeRO-1, 2 tensor-parallel ranks");
  const std::vector<tensor_kind> states{tensor_kind::master, tensor_kind::moment};
  check_same(*source, *universal, states);
  check_same(*universal, *source, states);
  BOOST_TEST((find_tensor(*source, "model.layers.0.self_attn.o_proj.weight", tensor_kind::master)->shape ==
              std::vector<int64_t>{8, 8}));
  BOOST_TEST((find_tensor(*source, "lm_head.weight", tensor_kind::weight)->shape == std::vector<int64_t>{12, 8}));
  BOOST_TEST(source->parameter_order.front() == "model.embed_tokens.weight");
}

BOOST_AUTO_TEST_CASE(universal_folders_hold_the_same_as_the_folders_they_were_made_from) {
  for (const std::string stage : {"stage2", "stage3"}) {
    BOOST_TEST_INFO_SCOPE(stage);
    const auto universal = read_universal_source(newest_in(fixtures / ("universal_" + stage), "latest_universal"));
    const auto source = read_deepspeed_source(newest_in(fixtures / (stage + "_bf16")));
    check_ok(universal);
    check_ok(source);
    const std::vector<tensor_kind> all{tensor_kind::master, tensor_kind::moment, tensor_kind::weight,
                                       tensor_kind::frozen, tensor_kind::buffer};
    check_same(*source, *universal, all);
    check_same(*universal, *source, all);
    BOOST_TEST((universal->tied == source->tied));
    BOOST_TEST(universal->parameter_order == source->parameter_order, boost::test_tools::per_element());
    BOOST_TEST(universal->run.steps.value() == 2U);
    BOOST_TEST(universal->run.client_state == R"({"note":"kept"})");
  }
  const scratch_folder at;
  check_failed(read_universal_source(at / ""), core::error_kind::bad_input, "not a universal checkpoint");
}

BOOST_AUTO_TEST_CASE(a_pipelines_layers_have_the_names_of_its_masters) {
  const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / "pipeline")));
  BOOST_TEST(source->format == "DeepSpeed ZeRO-1, 2 pipeline stages");
  const std::vector<std::string> order{"tied_modules.embed.weight", "1.weight", "1.bias", "2.weight", "2.bias"};
  BOOST_TEST(source->parameter_order == order, boost::test_tools::per_element());
  for (const auto& name : order) {
    const auto* master = find_tensor(*source, name, tensor_kind::master);
    const auto* weight = find_tensor(*source, name, tensor_kind::weight);
    BOOST_REQUIRE_MESSAGE((master != nullptr && weight != nullptr), name);
    BOOST_TEST((find_tensor(*source, name, tensor_kind::moment, "exp_avg") != nullptr), name);
    // The layer's file must contain the master weight, rounded to bf16.
    BOOST_TEST((bytes_of(*source, *master, core::dtype::bf16) == bytes_of(*source, *weight, core::dtype::bf16)), name);
  }
  BOOST_TEST(source->tensors.size() == 4 * order.size());
}

BOOST_AUTO_TEST_CASE(a_tag_its_folder_and_latest_name_the_same) {
  const auto by_latest = open_source(fixtures / "stage2_bf16");
  const auto by_tag = open_source(fixtures / "stage2_bf16", {.tag = "step2"});
  const auto by_folder = read_deepspeed_source(fixtures / "stage2_bf16" / "step2");
  check_ok(by_latest);
  check_ok(by_tag);
  check_ok(by_folder);
  BOOST_TEST((by_latest->tensors == by_tag->tensors && by_latest->tensors == by_folder->tensors));
  BOOST_TEST(by_latest->folder == by_folder->folder);
  BOOST_TEST(by_latest->format == "DeepSpeed ZeRO-2");
}

BOOST_AUTO_TEST_CASE(kinds_are_distinguished_and_frozen_parameters_can_be_left_out) {
  const scratch_folder at;
  for (const std::string name : {"stage1_bf16", "stage2_bf16", "stage3_bf16"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / name)));
    const auto has = [&](const char* tensor, tensor_kind kind) {
      return find_tensor(*source, tensor, kind) != nullptr;
    };
    BOOST_TEST(has("offset", tensor_kind::buffer));
    BOOST_TEST(has("frozen.weight", tensor_kind::frozen));
    BOOST_TEST(has("scale", tensor_kind::master));
    BOOST_TEST(!has("frozen.weight", tensor_kind::master));
    // Folders of stage 3 contain no 16-bit weights.
    BOOST_TEST(has("scale", tensor_kind::weight) == (name != "stage3_bf16"));
    BOOST_TEST((source->tied == std::vector<tied_name>{{"head.weight", "embed.weight"}}));
    const std::vector<std::string> order{"embed.weight", "first.weight",  "first.bias",    "norm.weight",
                                         "norm.bias",    "frozen.weight", "second.weight", "second.bias"};
    std::vector<std::string> found = source->parameter_order;
    // PyTorch lists a module's own parameters before those of its children.
    BOOST_TEST((std::erase(found, "scale") == 1U));
    BOOST_TEST(found == order, boost::test_tools::per_element());
  }
  const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / "stage3_bf16")));
  check_ok(export_weights(*source, {.out = at / "out.safetensors", .exclude_frozen = true}));
  const auto out = check_ok(weights_folder::open(at / "out.safetensors"));
  BOOST_TEST(!out->find("frozen.weight").has_value());
  BOOST_TEST(out->find("head.weight").has_value());
}

BOOST_AUTO_TEST_CASE(the_run_state_is_read_as_far_as_the_files_have_it) {
  const auto source = check_ok(read_deepspeed_source(newest_in(fixtures / "stage2_fp16")));
  BOOST_TEST(source->run.steps.value() == 2U);
  BOOST_TEST(source->run.samples.value() == 8U);
  BOOST_TEST(source->run.client_state == R"({"note":"kept"})");
  BOOST_TEST(source->run.config.starts_with("{"));
  BOOST_TEST(source->run.config.find("\"stage\":2") != std::string::npos);
  BOOST_REQUIRE(source->run.loss_scale.has_value());
  BOOST_TEST(source->run.loss_scale->cur_scale <= 256.0);
  BOOST_TEST(source->run.applied_updates.value() <= 2U);
}

BOOST_AUTO_TEST_CASE(the_optimizers_own_count_is_used_where_it_differs_from_the_engines) {
  // DeepSpeed's BF16 and FP16 engines of stage 0 create the states by an update without gradients, which torch.optim
  // counts as a step.
  const auto ahead = read_deepspeed_source(newest_in(fixtures / "stage0_bf16")),
             equal = read_deepspeed_source(newest_in(fixtures / "stage0_fp32"));
  check_ok(ahead);
  check_ok(equal);
  BOOST_TEST(ahead->run.steps.value() == 2U);
  BOOST_TEST(ahead->run.applied_updates.value() == 3U);
  BOOST_TEST_REQUIRE(ahead->remarks.size() == 1U);
  BOOST_TEST(ahead->remarks[0].starts_with("the optimizer counts 3 updates, the model file 2 "));
  BOOST_TEST(equal->run.applied_updates.value() == 2U);
  BOOST_TEST(equal->remarks.empty());
}

BOOST_AUTO_TEST_CASE(broken_folders_are_refused_with_the_reason) {
  const scratch_folder at;
  const auto bad = core::error_kind::bad_input;
  check_failed(read_deepspeed_source(at / "none"), bad, "cannot read the folder");
  fs::create_directories(at / "empty");
  check_failed(read_deepspeed_source(at / "empty"), bad, "not a DeepSpeed checkpoint");
  const auto folder = copied("stage2_bf16", at);
  check_failed(open_source(folder, {.tag = "../stage2_bf16"}), bad, "is not the name of a folder");
  check_failed(open_source(folder, {.tag = "step3"}), bad, "there is no such folder");
  fs::copy_file(folder / "step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
                folder / "step2/zero_pp_rank_1_mp_rank_00_optim_states.pt");
  check_failed(read_deepspeed_source(newest_in(folder)), bad, "belong to the same rank");
  fs::remove(folder / "step2/zero_pp_rank_1_mp_rank_00_optim_states.pt");
  fs::remove(folder / "step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
  check_failed(read_deepspeed_source(newest_in(folder)), bad, "one of 2 shards, but 1 were found");
  fs::remove(folder / "step2/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt");
  check_failed(read_deepspeed_source(newest_in(folder)), bad, "'*_optim_states.pt'");
  const auto mixed = copied("stage3_fp32", at);
  fs::copy_file(fixtures / "stage3_bf16/step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
                mixed / "step2/zero_pp_rank_1_mp_rank_00_optim_states.pt", fs::copy_options::overwrite_existing);
  // Layouts are equal and only the bytes differ, which is accepted.
  check_ok(read_deepspeed_source(newest_in(mixed)));
  fs::copy_file(fixtures / "stage2_fp16/step2/zero_pp_rank_1_mp_rank_00_optim_states.pt",
                mixed / "step2/zero_pp_rank_1_mp_rank_00_optim_states.pt", fs::copy_options::overwrite_existing);
  check_failed(read_deepspeed_source(newest_in(mixed)), bad, "its ZeRO stage is 2, 3 was wanted");
  fs::copy_file(mixed / "step2/zero_pp_rank_0_mp_rank_00_model_states.pt",
                mixed / "step2/layer_0_expert_0_mp_rank_00_model_states.pt");
  check_failed(read_deepspeed_source(newest_in(mixed)), bad, "experts");
}

BOOST_AUTO_TEST_CASE(ranks_that_no_folder_has_files_for_are_refused_by_their_file) {
  const scratch_folder at;
  for (const char* name :
       {"zero_pp_rank_4294967295_mp_rank_00_optim_states.pt", "zero_pp_rank_0_mp_rank_4294967295_optim_states.pt",
        "mp_rank_4294967295_model_states.pt", "layer_4294967295-model_states.pt",
        "layer_00-model_4294967295-model_states.pt", "zero_pp_rank_65536_mp_rank_65536_model_states.pt"}) {
    const auto folder = copied("stage2_fp16", at);
    std::ofstream(folder / "step2" / name) << "x";
    check_failed(read_deepspeed_source(newest_in(folder)), core::error_kind::bad_input, name);
    fs::remove_all(folder);
  }
}

BOOST_AUTO_TEST_CASE(shards_under_their_old_name_are_read) {
  const scratch_folder at;
  const auto folder = copied("stage3_fp32", at);
  for (const char* rank : {"0", "1"}) {
    const std::string stem = std::string("step2/zero_pp_rank_") + rank + "_mp_rank_00";
    fs::rename(folder / (stem + "_optim_states.pt"), folder / (stem + "optim_states.pt"));
  }
  const auto source = read_deepspeed_source(newest_in(folder)),
             good = read_deepspeed_source(newest_in(fixtures / "stage3_fp32"));
  check_ok(source);
  check_ok(good);
  BOOST_TEST((source->tensors == good->tensors));
}

BOOST_AUTO_TEST_CASE(every_name_in_its_files_is_understood) {
  for (const auto& name : cases)
    for (const auto& entry : fs::directory_iterator(fixtures / name / "step2")) {
      const auto file = check_ok(torch_archive::open(entry.path()));
      const auto unknown = file->unknown_globals();
      BOOST_TEST(unknown.empty(), entry.path().string() << ": " << (unknown.empty() ? "" : unknown.front()));
    }
}

BOOST_AUTO_TEST_SUITE_END()
