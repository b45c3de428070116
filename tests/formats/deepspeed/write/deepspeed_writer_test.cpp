// Tests folders written for DeepSpeed: the arithmetic of its partitions is compared with DeepSpeed's own numbers, and
// folders of any stage and degree are read back. tests/peer/deepspeed_resumes_ours.py lets DeepSpeed itself resume from
// such folders.
#include "formats/deepspeed/write/writer.hpp"

#include <fmt/format.h>

#include <array>
#include <set>

#include "formats/deepspeed/source.hpp"
#include "formats/deepspeed/write/layout.hpp"
#include "formats/deepspeed/zero.hpp"
#include "formats/torch/archive_writer.hpp"
#include "tests/file_size_limit.hpp"
#include "tests/formats/newest_in.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(deepspeed_writer)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
using core::dtype;

namespace {

std::vector<uint64_t> paddings(std::vector<uint64_t> numels, uint32_t ranks) {
  std::vector<uint64_t> out;
  for (uint32_t r = 0; r < ranks; ++r) out.push_back(partition_of_group(numels, ranks, r).padding);
  return out;
}

/// Checks that `got` contains every tensor of `wanted` with equal bits, except tensors of the kinds in `but`.
void check_same(const tensor_source& got, const tensor_source& wanted, std::set<tensor_kind> but = {}) {
  for (const auto& t : wanted.tensors) {
    if (but.contains(t.kind)) continue;
    const auto* found = find_tensor(got, t.name, t.kind, t.moment);
    BOOST_REQUIRE_MESSAGE(found != nullptr, "missing: " << shown(t));
    BOOST_REQUIRE_MESSAGE(found->shape == t.shape && found->type == t.type, "another shape or type: " << shown(t));
    BOOST_REQUIRE_MESSAGE(bytes_in(got, *found) == bytes_in(wanted, t), "other bits: " << shown(t));
  }
}

/// Returns two groups: a random half of the parameters with weight decay, and all others without; a single parameter
/// results in one group.
std::vector<deepspeed_parameter_group> two_groups(const tensor_source& s, uint64_t seed) {
  deepspeed_parameter_group plain, decayed;
  std::vector<std::string> names;
  for (const auto& t : s.tensors)
    if (t.kind == tensor_kind::master) names.push_back(t.name);
  for (size_t i = 0; i + 1 < names.size(); ++i)
    if ((seed >> i & 1) != 0) decayed.parameters.push_back(names[i]);
  decayed.weight_decay = 0.1;
  if (decayed.parameters.empty()) return {plain};
  return {decayed, plain};
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_are_aligned_to_twice_the_ranks_and_padded_at_their_end) {
  BOOST_TEST(paddings({53}, 4) == (std::vector<uint64_t>{0, 0, 0, 3}), boost::test_tools::per_element());
  BOOST_TEST(partition_of_group(std::vector<uint64_t>{53}, 4, 3).elements == 14U);
  BOOST_TEST(paddings({3}, 4) == (std::vector<uint64_t>{0, 1, 2, 2}), boost::test_tools::per_element());
  const auto many = paddings({53}, 40);
  BOOST_TEST(many[25] == 0U);
  BOOST_TEST(many[26] == 1U);
  BOOST_TEST(many[27] == 2U);
  BOOST_TEST(many[39] == 2U);
  BOOST_TEST(partition_of_group(std::vector<uint64_t>{53}, 40, 39).stretches.empty());
}

BOOST_AUTO_TEST_CASE(a_partition_begins_and_ends_inside_parameters) {
  // The sizes of a group in tests/formats/fixtures, which DeepSpeed has partitioned.
  const std::vector<uint64_t> numels{77, 63, 63};
  const auto first = partition_of_group(numels, 2, 0), second = partition_of_group(numels, 2, 1);
  BOOST_TEST((first.stretches == std::vector<flat_stretch>{{0, 0, 77}, {1, 0, 25}}));
  BOOST_TEST((second.stretches == std::vector<flat_stretch>{{1, 25, 38}, {2, 0, 63}}));
  BOOST_TEST(first.elements == 102U);
  BOOST_TEST(second.padding == 1U);
}

BOOST_AUTO_TEST_CASE(stage_3_cuts_every_parameter_and_pads_each) {
  const auto real = [](uint64_t n, uint32_t ranks) {
    std::vector<uint64_t> out;
    for (uint32_t r = 0; r < ranks; ++r) {
      BOOST_TEST_INFO_SCOPE("r " << r);
      const auto pieces = pieces_of_sub_group(std::vector<uint64_t>{n}, std::vector<uint32_t>{0}, ranks, r);
      BOOST_TEST(elements_of(pieces) == rank_elements(n, ranks));
      out.push_back(pieces[0].parameter == flat_stretch::no_parameter ? 0 : pieces[0].count);
    }
    return out;
  };
  BOOST_TEST(real(35, 4) == (std::vector<uint64_t>{9, 9, 9, 8}), boost::test_tools::per_element());
  BOOST_TEST(real(3, 8) == (std::vector<uint64_t>{1, 1, 1, 0, 0, 0, 0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_parameter_that_reaches_the_size_closes_a_sub_group) {
  using lists = std::vector<std::vector<uint32_t>>;
  const std::vector<uint64_t> numels{10, 10, 10, 10, 10};
  BOOST_TEST((sub_groups_of(numels, 2, 25) == lists{{0, 1, 2, 3, 4}}));
  BOOST_TEST((sub_groups_of(numels, 2, 24) == lists{{0, 1, 2, 3, 4}}));
  BOOST_TEST((sub_groups_of(numels, 2, 10) == lists{{0, 1}, {2, 3}, {4}}));
  BOOST_TEST((sub_groups_of(numels, 2, 1) == lists{{0}, {1}, {2}, {3}, {4}}));
}

BOOST_AUTO_TEST_CASE(any_checkpoint_comes_back_bit_for_bit_from_every_stage_and_degree) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const auto type = std::array{dtype::f32, dtype::bf16, dtype::f16}[seed % 3];
    const scratch_folder at;
    const random_source drawn(seed, type, at.path());
    for (uint32_t stage = 0; stage <= 3; ++stage)
      for (const uint32_t ranks : {1 + (static_cast<uint32_t>(seed / 3) + stage) % 4}) {
        BOOST_TEST_CONTEXT("seed " << seed << ", stage " << stage << ", ranks " << ranks) {
          deepspeed_write_options o{.stage = stage, .ranks = ranks, .weight_type = type};
          o.tag = fmt::format("s{}r{}", stage, ranks);
          // A folder of stage 0 stores parameters by number, with neither their names nor which of them are frozen.
          if (stage > 0) o.groups = two_groups(drawn.source, seed);
          o.exclude_frozen_parameters = stage == 0;
          o.sub_group_size = seed % 2 == 0 ? 20 : 1'000'000'000;
          check_ok(write_deepspeed_folder(drawn.source, at / "deepspeed", o));
          const auto back = check_ok(read_deepspeed_source(newest_in(at / "deepspeed")));
          std::set<tensor_kind> but;
          if (stage == 0) but = {tensor_kind::frozen};
          if (stage == 3) but = {tensor_kind::weight};  // stage 3 stores only the master weights
          check_same(*back, drawn.source, but);
          for (const auto& t : drawn.source.tied)
            BOOST_TEST(find_tensor(*back, t.name, tensor_kind::master) ==
                       find_tensor(*back, t.of, tensor_kind::master));
          BOOST_TEST(back->run.steps.value_or(0) == 12U);
          BOOST_TEST(back->run.applied_updates.value_or(0) == 10U);
          BOOST_TEST(back->run.samples.value_or(0) == 96U);
        }
      }
  }
}

BOOST_AUTO_TEST_CASE(names_and_further_tied_names_follow_the_options) {
  const scratch_folder at;
  const random_source drawn(4, dtype::f32, at.path());
  deepspeed_write_options o{.stage = 2, .ranks = 2};
  o.name = [](const std::string& name) { return "transformer." + name; };
  o.shared = {{"lm_head.weight", "transformer.layer.0.weight"}};
  o.groups = {{.parameters = {"layer.0.weight"}}};  // groups use the source's names
  if (drawn.source.parameter_order.size() > 1) o.groups.emplace_back();
  check_ok(write_deepspeed_folder(drawn.source, at / "deepspeed", o));
  const auto back = check_ok(read_deepspeed_source(newest_in(at / "deepspeed")));
  BOOST_TEST(find_tensor(*back, "transformer.layer.0.weight", tensor_kind::master) != nullptr);
  BOOST_TEST(find_tensor(*back, "lm_head.weight", tensor_kind::master) ==
             find_tensor(*back, "transformer.layer.0.weight", tensor_kind::master));
  BOOST_TEST(find_tensor(*back, "layer.0.weight", tensor_kind::master) == nullptr);
}

BOOST_AUTO_TEST_CASE(impossible_options_are_refused_before_a_byte_is_written) {
  const scratch_folder at;
  const random_source drawn(5, dtype::f32, at.path());
  const auto refused = [&](tensor_source s, deepspeed_write_options o, const char* words) {
    check_failed(write_deepspeed_folder(s, at / "deepspeed", o), error_kind::bad_input, words);
    BOOST_TEST(!std::filesystem::exists(at / "deepspeed"));
  };
  const auto& good = drawn.source;
  refused(good, {.stage = 4}, "there are stages 0 to 3");
  refused(good, {.ranks = 0}, "for 0 ranks");
  refused(good, {.weight_type = dtype::f64}, "wanted fp32, bf16 or fp16");
  refused(good, {.tag = "../up"}, "cannot be the name of a checkpoint's folder");
  refused(good, {.groups = {{}, {}}}, "both take all remaining parameters");
  refused(good, {.groups = {{.parameters = {"nobody"}}, {}}}, "is not a trained parameter");
  refused(good, {.ds_config = "[]"}, "is not a JSON object");
  refused(good, {.order = {"layer.0.weight"}}, "not in the order of parameters");
  refused(good, {.name = [](const std::string&) { return "same"; }}, "are named 'same'");
  refused(good, {.shared = {{"again", "nobody"}}}, "not a parameter");
  auto broken = good;
  broken.parameter_order.clear();
  refused(broken, {}, "by their order");
  broken = good;
  std::erase_if(broken.tensors, [](const auto& t) { return t.moment == "exp_avg" && t.name == "layer.0.weight"; });
  refused(broken, {}, "have different moments");
  broken = good;
  std::erase_if(broken.tensors, [](const auto& t) { return t.kind == tensor_kind::master; });
  refused(broken, {}, "master weight");
  broken = good;
  broken.run.client_state = R"({"global_steps": 3})";
  refused(broken, {}, "'global_steps' is reserved by DeepSpeed");
}

BOOST_AUTO_TEST_CASE(a_weight_that_no_list_of_deepspeed_takes_is_refused_and_never_left_out) {
  const scratch_folder at;
  const random_source drawn(5, dtype::f32, at.path());
  auto with = drawn.source;
  with.tensors.push_back({"late.weight", tensor_kind::weight, "", dtype::f32, {2}, {{0, 0, 2, 0, {}}}});
  check_ok(complete(with));
  for (const uint32_t stage : {0U, 2U, 3U})
    check_failed(write_deepspeed_folder(with, at / "deepspeed", {.stage = stage}), error_kind::bad_input,
                 "1 of its weights, such as 'late.weight', have neither an fp32 master weight nor moments");
  BOOST_TEST(!std::filesystem::exists(at / "deepspeed"));
  // No optimizer updates integers, so they are stored as a buffer of the module.
  with = drawn.source;
  with.tensors.push_back({"ticks", tensor_kind::weight, "", dtype::i64, {1}, {{0, 0, 1, 0, {}}}});
  check_ok(complete(with));
  check_ok(write_deepspeed_folder(with, at / "deepspeed", {.stage = 2}));
  const auto back = check_ok(read_deepspeed_source(newest_in(at / "deepspeed")));
  const auto* ticks = find_tensor(*back, "ticks", tensor_kind::buffer);
  BOOST_REQUIRE(ticks != nullptr);
  BOOST_TEST((bytes_in(*back, *ticks) == bytes_in(with, *find_tensor(with, "ticks", tensor_kind::weight))));
}

BOOST_AUTO_TEST_CASE(a_writing_that_is_stopped_leaves_nothing_and_a_tag_is_never_replaced) {
  const scratch_folder at;
  const random_source drawn(6, dtype::f32, at.path());
  deepspeed_write_options o{.stage = 3, .ranks = 2};
  uint64_t last = 0;
  o.progress = [&](uint64_t done, uint64_t total) {
    last = done;
    return done < total;
  };
  const auto root = at / "deepspeed";
  check_failed(write_deepspeed_folder(drawn.source, root, o), error_kind::stopped, "stopped");
  BOOST_TEST(last > 0U);
  BOOST_TEST(files_in(root) == 0U);
  o.progress = {};
  const auto written = check_ok(write_deepspeed_folder(drawn.source, root, o));
  BOOST_TEST(written->bytes == last);
  BOOST_TEST(files_in(root) == 2U);
  BOOST_TEST(files_in(root / "global_step12") == 4U);
  check_failed(write_deepspeed_folder(drawn.source, root, o), error_kind::bad_input, "already exists");
}

BOOST_AUTO_TEST_CASE(shards_of_different_saves_are_refused_by_the_steps_of_their_optimizers) {
  for (const uint32_t stage : {1U, 3U})
    for (const bool integer : {false, true}) BOOST_TEST_CONTEXT("stage " << stage << ", integers " << integer) {
        const scratch_folder at;
        const random_source drawn(6, dtype::f32, at.path());
        auto later = drawn.source;
        later.run.applied_updates = 11;
        const auto root = at / "deepspeed";
        for (const auto& [source, tag] : {std::pair(&drawn.source, "early"), std::pair(&std::as_const(later), "late")})
          check_ok(
              write_deepspeed_folder(*source, root, {.stage = stage, .ranks = 2, .tag = tag, .integer_step = integer}));
        const auto take = [&](int rank) {
          const auto name = fmt::format("zero_pp_rank_{}_mp_rank_00_optim_states.pt", rank);
          std::filesystem::copy_file(root / "late" / name, root / "early" / name,
                                     std::filesystem::copy_options::overwrite_existing);
        };
        take(1);
        const auto mixed = read_deepspeed_source(root / "early");
        check_failed(mixed, error_kind::bad_input, "the optimizer counts 10 updates in '");
        check_failed(mixed, error_kind::bad_input, "zero_pp_rank_0_mp_rank_00_optim_states.pt' and 11 in '");
        check_failed(mixed, error_kind::bad_input,
                     "they are from different saves; put the files of one save into the folder, or name another "
                     "checkpoint by --tag");
        take(0);
        const auto ahead = check_ok(read_deepspeed_source(root / "early"));
        BOOST_TEST(ahead->run.steps.value_or(0) == 12U);
        BOOST_TEST(ahead->run.applied_updates.value_or(0) == 11U);
        BOOST_TEST_REQUIRE(ahead->remarks.size() == 1U);
        BOOST_TEST(ahead->remarks[0] ==
                   "the optimizer counts 11 updates, the model file 10 (global_steps 12 less the skipped ones): the "
                   "optimizer continues with 11, the run with step 12");
      }
}

BOOST_AUTO_TEST_CASE(a_model_file_whose_weights_are_not_the_shards_masters_is_of_another_save) {
  for (const auto type : {dtype::f32, dtype::bf16}) {
    const scratch_folder at, blank;
    const random_source drawn(6, type, at.path());
    random_source other(6, type, blank.path());
    const auto bytes = other.source.files[0].bytes;
    std::filesystem::resize_file(other.source.files[0].path, 0);
    // The extended file contains zeros, so every weight is 0.
    std::filesystem::resize_file(other.source.files[0].path, bytes);
    auto later = drawn.source;
    for (auto* s : {&later, &other.source}) {
      s->run.steps = 16;
      s->run.applied_updates = 14;
    }
    const auto root = at / "deepspeed", folder = root / "own";
    const auto write = [&](const tensor_source& s, const char* tag) {
      check_ok(write_deepspeed_folder(s, root, {.stage = 2, .ranks = 2, .weight_type = type, .tag = tag}));
    };
    write(drawn.source, "own");
    write(later, "equal");
    write(other.source, "other");
    const auto take = [&](const char* tag) {
      std::filesystem::copy_file(root / tag / "mp_rank_00_model_states.pt", folder / "mp_rank_00_model_states.pt",
                                 std::filesystem::copy_options::overwrite_existing);
      return read_deepspeed_source(folder);
    };
    const auto equal = check_ok(take("equal"));
    BOOST_TEST(equal->remarks.size() == 1U);
    const auto mixed = take("other");
    check_failed(mixed, error_kind::bad_input,
                 "own/mp_rank_00_model_states.pt' counts 14 updates (global_steps 16 less the skipped ones), the "
                 "optimizer 10 in '");
    check_failed(mixed, error_kind::bad_input, "zero_pp_rank_0_mp_rank_00_optim_states.pt', where the master of '");
    check_failed(mixed, error_kind::bad_input, "they are from different saves; put the files of one save into");
  }
}

BOOST_AUTO_TEST_CASE(without_weights_to_compare_the_counters_and_the_tag_tell_different_saves) {
  const scratch_folder at;
  const random_source drawn(6, dtype::f32, at.path());
  const auto root = at / "deepspeed";
  for (const uint64_t steps : {7U, 12U, 13U}) {
    auto source = drawn.source;
    source.run.steps = steps;
    source.run.applied_updates = steps - 2;
    check_ok(write_deepspeed_folder(source, root, {.stage = 3, .ranks = 2}));
  }
  const auto mixed = [&](const char* shards_of, const char* models_of, const char* tag) {
    std::filesystem::remove_all(root / tag);
    std::filesystem::copy(root / shards_of, root / tag);
    for (const auto& file : std::filesystem::directory_iterator(root / models_of))
      if (file.path().filename().string().ends_with("_model_states.pt"))
        std::filesystem::copy_file(file.path(), root / tag / file.path().filename(),
                                   std::filesystem::copy_options::overwrite_existing);
    return read_deepspeed_source(root / tag);
  };
  check_failed(mixed("global_step12", "global_step7", "made"), error_kind::bad_input,
               "_model_states.pt' counts 5 updates (global_steps 7 less the skipped ones), the optimizer 10 in '");
  check_failed(mixed("global_step12", "global_step13", "made"), error_kind::bad_input, "they are from different saves");
  // Some engines create the states by an update without gradients, which the optimizer counts as a step.
  check_ok(mixed("global_step13", "global_step12", "made"));
  check_ok(mixed("global_step13", "global_step12", "global_step12-copy"));
  check_failed(mixed("global_step13", "global_step12", "global_step13-copy"), error_kind::bad_input,
               "counts 10 updates (global_steps 12 less the skipped ones), the optimizer 11 in '");
}

BOOST_AUTO_TEST_CASE(model_files_of_all_ranks_have_one_step) {
  const scratch_folder at;
  const random_source drawn(6, dtype::f32, at.path());
  auto later = drawn.source;
  later.run.steps = 13;
  const auto root = at / "deepspeed";
  check_ok(write_deepspeed_folder(drawn.source, root, {.stage = 3, .ranks = 2, .tag = "whole"}));
  check_ok(write_deepspeed_folder(later, root, {.stage = 3, .ranks = 2, .tag = "other"}));
  const auto name = "zero_pp_rank_1_mp_rank_00_model_states.pt";
  std::filesystem::copy_file(root / "other" / name, root / "whole" / name,
                             std::filesystem::copy_options::overwrite_existing);
  check_failed(read_deepspeed_source(root / "whole"), error_kind::bad_input,
               "zero_pp_rank_1_mp_rank_00_model_states.pt' is of step 13, the first model file of step 12");
}

BOOST_AUTO_TEST_CASE(model_files_of_different_steps_are_refused) {
  const scratch_folder at;
  const random_source drawn(6, dtype::f32, at.path());
  auto later = drawn.source;
  later.run.steps = 13;
  const auto root = at / "deepspeed";
  for (const auto& [source, rank] : {std::pair(&drawn.source, 0U), std::pair(&std::as_const(later), 1U)}) {
    deepspeed_write_options o{.stage = 1, .tag = rank == 0 ? "whole" : "other"};
    o.place = {.rank = rank, .stages = 1, .tensor = 2};
    check_ok(write_deepspeed_folder(*source, root, o));
  }
  for (const auto& file : std::filesystem::directory_iterator(root / "other"))
    std::filesystem::rename(file.path(), root / "whole" / file.path().filename());
  check_failed(read_deepspeed_source(root / "whole"), error_kind::bad_input,
               "mp_rank_01_model_states.pt' is of step 13, the first model file of step 12: they are from different "
               "saves");
}

BOOST_AUTO_TEST_CASE(steps_are_counted_in_states_or_in_groups_and_may_be_missing) {
  const scratch_folder at;
  const std::vector<std::byte> bytes(16);
  const std::vector<torch_storage> storages(2, {dtype::f32, 4, bytes, {}});
  const auto read = [&](torch_value state, torch_value group, const std::string& beside = {}) {
    state.set("exp_avg", torch_view{1, 0, {4}});
    auto masters = torch_value::list(), groups = torch_value::list();
    masters.push(torch_view{0, 0, {4}});
    groups.push(std::move(group.set("params", torch_value::list({int64_t{0}}))));
    auto states = torch_value::dict(), base = torch_value::dict(), shard = torch_value::dict();
    states.set(int64_t{0}, std::move(state));
    base.set("state", std::move(states)).set("param_groups", std::move(groups));
    shard.set("zero_stage", 1).set("single_partition_of_fp32_groups", std::move(masters));
    shard.set("base_optimizer_state", std::move(base));
    if (!beside.empty()) shard.set(beside, int64_t{5});
    std::filesystem::remove(at / "shard.pt");
    check_ok(write_torch_archive(at / "shard.pt", torch_value::dict().set("optimizer_state_dict", std::move(shard)),
                                 storages));
    const auto file = check_ok(torch_archive::open(at / "shard.pt"));
    zero_shards zero(1);
    optimizer_steps steps;
    source_run run;
    run.steps = 9;
    run.applied_updates = 8;
    if (auto ok = zero.add(*file, 0, steps); !ok) return core::result<uint64_t>(core::fail(ok.error()));
    (void)steps.settle(run);
    return core::result<uint64_t>(*run.applied_updates);
  };
  const auto empty = [] { return torch_value::dict(); };
  BOOST_TEST(read(empty().set("step", int64_t{3}), empty()).value() == 3U);
  BOOST_TEST(read(empty().set("step", 3.0), empty()).value() == 3U);
  // FusedAdam stores the number of steps in this form.
  BOOST_TEST(read(empty(), empty().set("step", int64_t{4})).value() == 4U);
  BOOST_TEST(read(empty().set("step", int64_t{3}), empty().set("step", int64_t{4})).value() == 3U);
  BOOST_TEST(read(empty(), empty(), "base_optimizer_state_step").value() == 5U);
  BOOST_TEST(read(empty(), empty()).value() == 8U);  // SGD and Lion store no number of steps
  BOOST_TEST(read(empty().set("step", torch_value()), empty()).value() == 8U);
  check_failed(read(empty().set("step", int64_t{-1}), empty()), error_kind::bad_input, "a number of steps was wanted");
  check_failed(read(empty().set("step", 2.5), empty()), error_kind::bad_input, "a number of steps was wanted");
  // A double would round this number to 2^53, the largest number of steps.
  check_failed(read(empty().set("step", int64_t{9007199254740993}), empty()), error_kind::bad_input,
               "a number of steps was wanted, got 9007199254740993");
}

BOOST_AUTO_TEST_CASE(an_unknown_number_of_samples_stays_unknown) {
  const scratch_folder at;
  const random_source drawn(6, dtype::f32, at.path());
  for (const std::optional<uint64_t> samples : {std::optional<uint64_t>(), std::optional<uint64_t>(0)}) {
    auto source = drawn.source;
    source.run.samples = samples;
    const std::string tag = samples ? "zero" : "none";
    check_ok(write_deepspeed_folder(source, at / "deepspeed", {.stage = 2, .tag = tag}));
    const auto file = check_ok(torch_archive::open(at / "deepspeed" / tag / "mp_rank_00_model_states.pt"));
    BOOST_TEST(file->tree().find(file->root(), "global_samples").has_value() == samples.has_value());
    const auto back = check_ok(read_deepspeed_source(at / "deepspeed" / tag));
    BOOST_TEST(back->run.steps.value_or(0) == 12U);
    BOOST_TEST(!back->run.samples.has_value());
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_number_of_updates_stays_unknown) {
  const scratch_folder at;
  const random_source drawn(6, dtype::f32, at.path());
  auto source = drawn.source;
  source.run = {};
  for (const uint32_t stage : {0U, 2U, 3U}) BOOST_TEST_CONTEXT("stage " << stage) {
      deepspeed_write_options o{.stage = stage};
      o.exclude_frozen_parameters = stage == 0;
      check_ok(write_deepspeed_folder(source, at / fmt::to_string(stage), o));
      const auto back = check_ok(read_deepspeed_source(newest_in(at / fmt::to_string(stage))));
      BOOST_TEST((find_tensor(*back, "layer.0.weight", tensor_kind::moment, "exp_avg") != nullptr));
      BOOST_TEST(!back->run.steps.has_value());
      BOOST_TEST(!back->run.applied_updates.has_value());
    }
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_existing_files_alone) {
  const scratch_folder at;
  const random_source drawn(6, dtype::f32, at.path());
  const auto root = at / "deepspeed";
  check_ok(write_deepspeed_folder(drawn.source, root, {.stage = 2, .ranks = 2, .tag = "first"}));
  {
    const file_size_limit full(0);
    check_failed(write_deepspeed_folder(drawn.source, root, {.stage = 2, .ranks = 2, .tag = "second"}),
                 error_kind::no_space, "second");
  }
  BOOST_TEST(files_in(root) == 2U);
  const auto back = check_ok(read_deepspeed_source(newest_in(root)));
  check_same(*back, drawn.source);
}

BOOST_AUTO_TEST_CASE(leftovers_of_a_crash_are_removed_when_the_tag_is_written_again) {
  const scratch_folder at;
  const random_source drawn(6, dtype::f32, at.path());
  const auto root = at / "deepspeed";
  const auto left = root / ("ours.writing-" + std::string(32, 'a'));
  std::filesystem::create_directories(left / "zero/x");
  std::ofstream(left / "zero/x/fp32.pt") << "half";
  std::filesystem::create_directories(root / "ours.writing-not-an-id");
  check_ok(write_deepspeed_folder(drawn.source, root, {.tag = "ours"}));
  BOOST_TEST(!std::filesystem::exists(left));
  BOOST_TEST(std::filesystem::exists(root / "ours.writing-not-an-id"));
}

BOOST_AUTO_TEST_SUITE_END()
