// Tests the stages and the schedule of a pipeline that result from a configuration: plans of all kinds of steps are
// checked, and impossible combinations are refused with the name of their key.
#include "job/pipeline.hpp"
#include "job/step/step_options.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "config/load.hpp"
#include "job/blueprint.hpp"
#include "plan/choose/profile.hpp"
#include "plan/schedule/named.hpp"
#include "plan/schedule/text.hpp"
#include "plan/schedule/transfers.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(pipeline)

using namespace troupe;
using troupe::tests::check_ok;
using troupe::tests::has;

namespace {

using settings = std::vector<std::string>;

/// A model of eight units (embedding, six blocks, head), in which embedding and head share no weight.
const std::string untied =
    "model: {model_type: gpt2, n_layer: 6, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, "
    "tie_word_embeddings: false}\n"
    "data: {text: corpus.txt, sequence_length: 16}\n"
    "seed: 7\n"
    "steps: 10\n"
    "train_micro_batch_size_per_gpu: 2\n"
    "gradient_accumulation_steps: 4\n"
    "parallel: {pipeline: 2}\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\n";

std::shared_ptr<const config::job_config> config_of(const settings& set, const std::string& folder = "/base") {
  config::load_options options;
  options.overrides = set;
  auto loaded = config::load_text(untied, "job.yaml", folder, options);
  BOOST_TEST_REQUIRE(loaded.has_value(), (loaded ? std::string() : config::render(loaded.error())));
  return std::make_shared<const config::job_config>(std::move(loaded->config));
}

job::blueprint planned(const settings& set, const std::string& folder = "/base") {
  auto made = check_ok(job::make_blueprint(config_of(set, folder)));
  return std::move(*made);
}

std::string refusal(const settings& set, const std::string& folder = "/base") {
  const auto made = job::make_blueprint(config_of(set, folder));
  return made ? "planned" : made.error().text;
}

const plan::plan_options& options_of(const job::blueprint& b, plan::plan_choice which) {
  return b.options[static_cast<size_t>(which)];
}

/// Returns true if the stages of the training plan begin at these units.
bool cut_at(const job::blueprint& b, const std::vector<uint32_t>& first) {
  return b.pipeline.training.first_unit == first;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_rank_with_one_stage_is_not_cut_whatever_the_schedule) {
  for (const char* schedule : {"1f1b", "zb_v", "none.csv", "search"}) {
    BOOST_TEST_INFO_SCOPE(schedule);
    const auto b = planned({"parallel.pipeline=1", std::string("pipeline.schedule=") + schedule});
    BOOST_TEST(!b.pipeline.is_cut());
    for (const auto& o : b.options) BOOST_TEST((o.pipeline == plan::pipeline_options{}));
  }
}

BOOST_AUTO_TEST_CASE(ranks_are_those_of_all_axes_and_stages_are_the_same_in_every_kind_of_step) {
  const auto b = planned({"parallel.data=2", "zero_optimization.stage=3"});
  BOOST_TEST(b.train.ranks() == 4U);
  BOOST_TEST(b.pools.size() == 4U);
  for (const auto which : {plan::plan_choice::train, plan::plan_choice::evaluate, plan::plan_choice::generate,
                           plan::plan_choice::train_saving, plan::plan_choice::save}) {
    const auto& o = options_of(b, which);
    BOOST_TEST((o.pipeline.first_unit == b.pipeline.training.first_unit));
    BOOST_TEST((o.pipeline.table.rank_of_stage == b.pipeline.training.table.rank_of_stage));
    BOOST_TEST(o.pipeline.table.micro_batches == o.accumulation);
    BOOST_TEST(plan::trains(o.pipeline.table) == (o.mode == plan::mode::train));
  }
}

BOOST_AUTO_TEST_CASE(every_named_schedule_that_trains_is_planned_at_every_zero_stage) {
  for (const auto& schedule : plan::named_schedules()) {
    if (schedule.name == "forward_only") continue;
    for (uint32_t stage = 0; stage <= 3; ++stage) BOOST_TEST_CONTEXT(schedule.name << ", stage " << stage) {
        const auto b = planned({"parallel.data=2", fmt::format("zero_optimization.stage={}", stage),
                                "pipeline.any_order=true", "pipeline.schedule=" + std::string(schedule.name)});
        BOOST_TEST(b.pipeline.schedule == schedule.name);
        BOOST_TEST(b.pipeline.training.table.stages() == 2 * std::max(1U, schedule.chunks));
      }
  }
}

BOOST_AUTO_TEST_CASE(a_budget_is_of_all_ranks) {
  const auto b = planned({"parallel.data=2", "cluster.host_memory_budget=1GiB"});
  BOOST_TEST(options_of(b, plan::plan_choice::train).memory_budget_bytes == (uint64_t{1} << 30) / 4);
}

BOOST_AUTO_TEST_CASE(gradients_of_tied_weights_are_summed_per_use_where_a_pipeline_may_part_them) {
  using plan::tied_gradients;
  const auto tied = [](const settings& set) {
    return job::options_from(*config_of(set), plan::mode::train).gradients.tied;
  };
  BOOST_TEST((tied({}) == tied_gradients::per_use));
  BOOST_TEST((tied({"parallel.pipeline=1"}) == tied_gradients::in_bucket));
  BOOST_TEST((tied({"tied_gradients=in_bucket"}) == tied_gradients::in_bucket));
  BOOST_TEST((tied({"parallel.pipeline=1", "tied_gradients=per_use"}) == tied_gradients::per_use));
}

BOOST_AUTO_TEST_CASE(units_are_cut_as_the_partition_says) {
  BOOST_TEST(cut_at(planned({"pipeline.partition=uniform"}), {0, 4}));
  BOOST_TEST(cut_at(planned({"pipeline.partition=[0, 3]"}), {0, 3}));
  BOOST_TEST(cut_at(planned({"pipeline.partition=type:BLOCK"}), {0, 4}));
  BOOST_TEST(cut_at(planned({"pipeline.partition='type:^head$|block 5'"}), {0, 7}));
  BOOST_TEST(cut_at(planned({"pipeline.partition=uniform", "pipeline.chunks=2", "pipeline.schedule=looped_bfs"}),
                    {0, 2, 4, 6}));
}

BOOST_AUTO_TEST_CASE(by_parameters_only_what_trains_is_weighed) {
  // Only the last two units have trainable parameters.
  const std::string frozen = R"(parameter_groups=[{match: 'transformer\.(wte|wpe|h\.[0-4])', trainable: false}])";
  BOOST_TEST(cut_at(planned({"pipeline.partition=parameters", frozen}), {0, 7}));
}

BOOST_AUTO_TEST_CASE(the_best_cut_counts_embedding_and_head_and_is_the_same_every_time) {
  const auto heavy_head = settings{"model.vocab_size=20000"};
  const auto best = planned(heavy_head), again = planned(heavy_head);
  BOOST_TEST((best.pipeline.training == again.pipeline.training));
  BOOST_TEST(best.pipeline.partition == "best");
  const auto slowest = [](const job::blueprint& b) { return *std::ranges::max_element(b.pipeline.step_s); };
  for (const char* other : {"uniform", "parameters"})
    BOOST_TEST(slowest(best) <= slowest(planned({heavy_head[0], std::string("pipeline.partition=") + other})));
  BOOST_TEST(best.pipeline.bound < 2U);
  BOOST_TEST(best.pipeline.step_s[best.pipeline.bound] == slowest(best));
}

BOOST_AUTO_TEST_CASE(a_schedule_is_read_from_a_file_with_transfers_or_without) {
  const tests::scratch_folder folder;
  const auto named = planned({"pipeline.schedule=zb_h1"});
  const auto& table = named.pipeline.training.table;
  folder.write("plain.csv", plan::write_table(table));
  folder.write("moves.csv", plan::write_table(plan::with_transfers(table)));
  for (const char* file : {"plain.csv", "moves.csv"}) {
    BOOST_TEST_INFO_SCOPE(file);
    const auto b = planned({}, folder.path().string());
    const auto read = planned({std::string("pipeline.schedule=") + (folder / file).string()});
    BOOST_TEST((read.pipeline.training == named.pipeline.training));
    BOOST_TEST(has(read.pipeline.schedule, file));
    BOOST_TEST(b.pipeline.schedule == "1f1b");
  }
}

BOOST_AUTO_TEST_CASE(a_search_is_planned_and_keeps_to_its_limit) {
  const auto b = planned({"pipeline.schedule=search"});
  BOOST_TEST(has(b.pipeline.schedule, "search, from "));
  BOOST_TEST(b.pipeline.least_s.has_value());
  BOOST_TEST((planned({"pipeline.schedule=search"}).pipeline.training == b.pipeline.training));
  const auto few = planned({"pipeline.schedule=search", "pipeline.in_flight_limit=2"});
  const auto in_flight = plan::micros_in_flight(few.pipeline.training.table);
  for (const uint32_t n : in_flight) BOOST_TEST_CONTEXT("n " << n) BOOST_TEST(n <= 2U);
}

BOOST_AUTO_TEST_CASE(an_evaluation_has_several_micro_batches_in_flight_and_no_more_memory) {
  for (const char* schedule : {"1f1b", "looped_bfs", "interleaved", "zb_v"})
    for (const char* ranks : {"2", "3"})
      for (uint32_t stage = 0; stage <= 3; ++stage) {
        const auto b = planned({"parallel.data=2", std::string("parallel.pipeline=") + ranks,
                                fmt::format("zero_optimization.stage={}", stage), "pipeline.any_order=true",
                                std::string("pipeline.schedule=") + schedule});
        const auto& o = options_of(b, plan::plan_choice::evaluate);
        BOOST_TEST(o.accumulation == 2 * b.pipeline.training.table.stages());
        BOOST_TEST(options_of(b, plan::plan_choice::generate).accumulation == 1U);
        const auto plans = check_ok(b.write(plan::plan_choice::evaluate));
        const auto pool = static_cast<size_t>(plan::pool::transfers);
        for (uint32_t r = 0; r < plans->ranks(); ++r)
          BOOST_TEST(plans->like(r).pool_bytes[pool] <= b.train.like(r).pool_bytes[pool],
                     schedule << ", " << ranks << " ranks, ZeRO-" << stage << ", rank " << r);
      }
}

BOOST_AUTO_TEST_CASE(a_profile_in_the_folder_of_the_run_says_what_units_take) {
  const tests::scratch_folder folder;
  const std::string at = "output=" + folder.path().string();
  const auto modelled = planned({at});
  BOOST_TEST(modelled.pipeline.profile.empty());
  plan::model_profile p{.dtype = "fp32", .steps = 5, .units = plan::units_to_profile(*modelled.table)};
  for (auto& u : p.units) u.forward_s = u.backward_input_s = u.backward_weight_s = 1e-3;
  p.units.front().forward_s = 0.02;  // the embedding alone takes as long as all other units
  folder.write("profile.csv", plan::write_profile(p));
  const auto measured = planned({at});
  BOOST_TEST(measured.pipeline.profile == folder / "profile.csv");
  BOOST_TEST(cut_at(measured, {0, 1}));
  BOOST_TEST((planned({at}).pipeline.training == measured.pipeline.training));
  BOOST_TEST(measured.pipeline.step_s[0] >= 0.022);
  BOOST_TEST((planned({at, "pipeline.profile=never"}).pipeline.training == modelled.pipeline.training));
  BOOST_TEST(planned({at, "train_micro_batch_size_per_gpu=3"}).pipeline.profile.empty());
  BOOST_TEST(planned({at, "bf16.enabled=true"}).pipeline.profile.empty());
  BOOST_TEST(!planned({at, "pipeline.partition=uniform"}).pipeline.profile.empty());
  folder.write("profile.csv", "troupe profile,1\ndtype\n");
  BOOST_TEST(has(refusal({at}), "profile.csv:2: wanted 'dtype,NAME' of a profile"));
}

BOOST_AUTO_TEST_CASE(a_search_in_the_folder_of_the_run_is_taken_while_nothing_changes) {
  const tests::scratch_folder folder;
  const settings search = {"output=" + folder.path().string(), "pipeline.schedule=search",
                           "gradient_accumulation_steps=6"};
  const auto first = planned(search);
  BOOST_TEST(!first.pipeline.is_kept);
  folder.write("schedule.csv", plan::write_table(first.pipeline.training.table));
  folder.write("schedule.txt", first.pipeline.search);
  const auto second = planned(search);
  BOOST_TEST(second.pipeline.is_kept);
  BOOST_TEST((second.pipeline.training == first.pipeline.training));
  BOOST_TEST(second.pipeline.search == first.pipeline.search);
  BOOST_TEST(second.pipeline.schedule == first.pipeline.schedule);
  BOOST_TEST(second.pipeline.bound == first.pipeline.bound);
  const auto changed = [&](const std::string& setting) {
    auto with = search;
    with.push_back(setting);
    return !planned(with).pipeline.is_kept;
  };
  BOOST_TEST(changed("gradient_accumulation_steps=5"));
  BOOST_TEST(changed("pipeline.partition=[0, 2]"));
  BOOST_TEST(changed("pipeline.in_flight_limit=3"));
  BOOST_TEST(changed("train_micro_batch_size_per_gpu=3"));
  folder.write("schedule.csv", plan::write_table(plan::with_transfers(first.pipeline.training.table)));
  BOOST_TEST(planned(search).pipeline.is_kept);
  folder.write("schedule.csv", "0F0\n1F0\n");
  const auto again = planned(search);
  BOOST_TEST(!again.pipeline.is_kept);
  BOOST_TEST((again.pipeline.training == first.pipeline.training));
}

BOOST_AUTO_TEST_CASE(degrees_and_chunks_that_do_not_fit_the_model_are_refused) {
  BOOST_TEST(refusal({"parallel.pipeline=9"}) ==
             "parallel.pipeline: wanted at most 8 stages, one for each unit of the model, got 9 ranks x 1 chunk");
  BOOST_TEST(refusal({"pipeline.chunks=5"}) ==
             "parallel.pipeline: wanted at most 8 stages, one for each unit of the model, got 2 ranks x 5 chunks");
  BOOST_TEST(refusal({"pipeline.schedule=zb_v", "pipeline.chunks=3"}) ==
             "pipeline.chunks: schedule zb_v requires 2 chunks per rank, got 3");
}

BOOST_AUTO_TEST_CASE(schedules_that_are_not_there_or_do_not_train_are_refused) {
  const auto unknown = refusal({"pipeline.schedule=2f2b"});
  BOOST_TEST(unknown.starts_with("pipeline.schedule: unknown pipeline schedule '2f2b'; wanted one of gpipe, 1f1b, "),
             unknown);
  BOOST_TEST(has(refusal({"pipeline.schedule=forward_only"}), "pipeline.schedule: forward_only has no backward"));
  BOOST_TEST(has(refusal({"pipeline.schedule=none.csv"}), "none.csv"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_wrong_is_refused_with_its_line) {
  const tests::scratch_folder folder;
  const std::string good = "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n";
  const auto of = [&](const std::string& text) {
    const auto file = folder.write("own.csv", text).string();
    auto said = refusal({"pipeline.schedule=" + file});
    const auto at = said.find(file);
    return at == std::string::npos ? said : said.erase(at, file.size() - std::string("own.csv").size());
  };
  const std::string begin = "pipeline.schedule: own.csv:";
  BOOST_TEST(of(good + "1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B2\n") == begin + "2: 1B2 occurs twice");
  BOOST_TEST(of(good + "1F0,1F1,1F2,1F3,1B0,1B1,1B2\n") == begin + "2: 1B3 is missing");
  BOOST_TEST(of(good + "1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3,x\n").starts_with(begin + "2: unknown action 'x'"));
  BOOST_TEST(
      of("0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n").starts_with(begin + "1: deadlock"));
  BOOST_TEST(has(of("0F0,0SEND_F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n"), "is missing"));
  BOOST_TEST(has(of(good), "it has lines for 1 ranks, the pipeline has 2"));
}

BOOST_AUTO_TEST_CASE(steps_that_train_and_steps_that_evaluate_have_one_layout_of_the_swap_file) {
  const std::string zero = "zero_optimization.";
  for (const char* pipeline : {"1", "2"})
    for (const char* order : {"per_step", "per_micro_batch"}) {
      BOOST_TEST_INFO_SCOPE(order);
      BOOST_TEST_INFO_SCOPE(pipeline);
      const auto b = planned({std::string("parallel.pipeline=") + pipeline, std::string("gradient_order=") + order,
                              zero + "stage=3", zero + "offload_optimizer.device=nvme",
                              zero + "offload_param.device=nvme", zero + "offload_optimizer.nvme_path=/swap",
                              zero + "offload_param.nvme_path=/swap", "cluster.swap_gradients=true"});
      const auto evaluates = check_ok(b.write(plan::plan_choice::evaluate));
      BOOST_TEST(evaluates->like(0).swap_file_bytes == b.train.like(0).swap_file_bytes);
      BOOST_TEST(evaluates->layout().swaps_gradients() == b.train.layout().swaps_gradients());
    }
}

BOOST_AUTO_TEST_CASE(an_order_that_changes_bits_has_to_be_allowed) {
  const tests::scratch_folder folder;
  const auto file = folder.write("own.csv", "0F0,0F1,0F2,0F3,0B1,0B0,0B2,0B3\n1F0,1F1,1B1,1B0,1F2,1B2,1F3,1B3\n");
  const auto said = refusal({"pipeline.schedule=" + file.string()});
  BOOST_TEST(has(said, "own.csv:1: 0B1 leaves the order of micro-batches"), said);
  BOOST_TEST(has(said, "bits differ"), said);
  BOOST_TEST(has(said, "pipeline.any_order: true"), said);
  const auto later = folder.write("later.csv", "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1B1,1B0,1F2,1B2,1F3,1B3\n");
  BOOST_TEST(has(refusal({"pipeline.schedule=" + later.string()}), "later.csv:2: 1B1 leaves the order"));
  const auto back = folder.write("back.csv", "0F0,0F1,0F2,0F3,0B3,0B2,0B1,0B0\n1F0,1F1,1F2,1F3,1B3,1B2,1B1,1B0\n");
  for (const auto& each : {file, later, back})
    for (const char* order : {"per_step", "per_micro_batch"})
      for (uint32_t stage = 0; stage <= 3; ++stage)
        BOOST_TEST(planned({"pipeline.schedule=" + each.string(), "pipeline.any_order=true", "parallel.data=2",
                            std::string("gradient_order=") + order, fmt::format("zero_optimization.stage={}", stage)})
                       .pipeline.is_cut());
}

// Head and embedding are stages of the same rank, which run alternately.
BOOST_AUTO_TEST_CASE(a_weight_that_stages_of_a_rank_sum_in_turns_has_to_be_allowed) {
  const settings shared = {"model.tie_word_embeddings=true", "tied_gradients=in_bucket", "pipeline.schedule=zb_v"};
  const auto with = [&](const settings& more) {
    auto all = shared;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto said = refusal(with({"gradient_order=per_step"}));
  BOOST_TEST(
      said.starts_with("tied_gradients: wanted per_use, or pipeline.any_order: true, got in_bucket: zb_v, rank 0: 3W1 "
                       "leaves the order of micro-batches and stages that write to transformer.wte.weight"),
      said);
  BOOST_TEST(planned(with({"gradient_order=per_step", "pipeline.any_order=true"})).pipeline.is_cut());
  BOOST_TEST(planned(with({"gradient_order=per_micro_batch"})).pipeline.is_cut());
  BOOST_TEST(planned(with({"gradient_order=per_step", "tied_gradients=per_use"})).pipeline.is_cut());
  // A single micro-batch leaves only one order of addition.
  BOOST_TEST(planned(with({"gradient_order=per_step", "gradient_accumulation_steps=1"})).pipeline.is_cut());
}

BOOST_AUTO_TEST_CASE(partitions_that_do_not_fit_are_refused) {
  BOOST_TEST(refusal({"pipeline.partition=[0, 3, 5]"}) ==
             "pipeline.partition: wanted 2 first units, one for each stage, got 3");
  BOOST_TEST(has(refusal({"pipeline.partition=[1, 3]"}), "pipeline.partition: stage offsets: wanted from 0 to 8"));
  BOOST_TEST(has(refusal({"pipeline.partition=[0, 8]"}), "stage 1 has no unit"));
  BOOST_TEST(has(refusal({"pipeline.partition=type:conv"}), "pipeline.partition: wanted a pattern that matches"));
}

BOOST_AUTO_TEST_CASE(a_schedule_that_keeps_more_than_its_limit_is_refused) {
  const auto said = refusal({"pipeline.schedule=gpipe", "pipeline.in_flight_limit=3"});
  BOOST_TEST(said ==
             "pipeline.in_flight_limit: wanted at most 3 micro-batches of stages on a rank, schedule gpipe keeps 4 on "
             "rank 0");
  BOOST_TEST(has(refusal({"pipeline.memory_limit=100"}), "pipeline.memory_limit: wanted at most 100 B"));
}

BOOST_AUTO_TEST_CASE(a_problem_is_found_without_the_blueprint) {
  const auto c = config_of({"pipeline.partition=[0, 9]"});
  const auto b = planned({});
  const auto trains = job::options_from(*c, plan::mode::train);
  const auto found = check_ok(job::find_pipeline_problem(*c, *b.table, trains));
  BOOST_TEST(found->key == "pipeline.partition");
  BOOST_TEST(!job::find_pipeline_problem(*config_of({"pipeline.schedule=search"}), *b.table, trains).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
