// Checks that a job has the same bits in one process and in many: losses, norms, and every byte of its checkpoints, for
// each way to cut a model and to store its states.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <set>

#include "tests/apps/topology.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/survive/compared_job.hpp"
#include "tests/survive/job_of_processes.hpp"

BOOST_AUTO_TEST_SUITE(processes)

using namespace troupe::tests;

namespace {

struct way {
  const char* name;
  std::vector<std::string> set;
  const char* processes = "ranks";
};

void equal_in_many(const way& w) {
  BOOST_TEST_CONTEXT(w.name) {
    const command_folder folder(compared_job);
    const auto trained = [&](const std::string& output, const std::string& processes) {
      std::vector<std::string> arguments{
          "train", "job.yaml", "--set", "output=" + output, "--set", "cluster.processes=" + processes};
      for (const auto& x : w.set) arguments.insert(arguments.end(), {"--set", x});
      return folder.troupe(arguments);
    };
    const auto one = trained("one", "one"), many = trained("many", w.processes);
    BOOST_REQUIRE_MESSAGE(one.code == 0, one.err);
    BOOST_REQUIRE_MESSAGE(many.code == 0, many.err);
    const auto output = folder.folder.path();
    const auto different = first_difference(steps_of(output / "one"), steps_of(output / "many"));
    BOOST_TEST(!different, (different ? *different : ""));
    const auto wanted = saved_in(output / "one"), got = saved_in(output / "many");
    BOOST_TEST(wanted.size() >= 4U);
    BOOST_TEST(got.size() == wanted.size());
    for (const auto& [file, bytes] : wanted) BOOST_TEST((got.contains(file) && got.at(file) == bytes), file);
    const auto line = [](const std::string& out, const char* begin) {
      const auto at = out.rfind(begin);
      if (at == std::string::npos) return std::string();
      return out.substr(at, std::min(out.find('\n', at), out.find(" after", at)) - at);
    };
    for (const char* begin : {"sample: ", "validation loss "}) {
      BOOST_TEST(!line(one.out, begin).empty());
      BOOST_TEST(line(many.out, begin) == line(one.out, begin));
    }
  }
}

/// Tests the first `here` configurations, or all in `make soak`. The list begins with those that differ most.
void equal_in_many(uint64_t here, const std::vector<way>& ways) {
  const uint64_t wanted = std::min<uint64_t>(wanted_cases("TROUPE_WAYS", here), ways.size());
  for (uint64_t i = 0; i < wanted; ++i) equal_in_many(ways[i]);
}

const std::vector<std::string> in_files = {"zero_optimization.offload_optimizer.device=nvme",
                                           "zero_optimization.offload_optimizer.nvme_path=swap"};

std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_stage_and_precision_has_the_bits_of_one_process) {
  const auto stage = [](const char* number) {
    return way{number, {"parallel.data=3", std::string("zero_optimization.stage=") + number}};
  };
  equal_in_many(2, {{"stage 3, bf16, accumulation",
                     {"parallel.data=3", "bf16.enabled=true", "gradient_accumulation_steps=2",
                      "zero_optimization.stage=3", "zero_optimization.stage3_param_persistence_threshold=0"}},
                    {"stage 1, fp16", {"parallel.data=2", "fp16.enabled=true", "zero_optimization.stage=1"}},
                    stage("2"),
                    stage("0"),
                    stage("1"),
                    stage("3")});
}

BOOST_AUTO_TEST_CASE(every_cut_across_processes_has_the_bits_of_one_process) {
  equal_in_many(3, {{"pipeline of 2, stage 1", {"parallel.data=2", "parallel.pipeline=2", "zero_optimization.stage=1"}},
                    {"tensor", {"parallel.data=2", "parallel.tensor=2"}},
                    {"two ranks each", {"parallel.data=2", "parallel.pipeline=2"}, "2"},
                    {"second copies of slices",
                     {"parallel.data=4", "zero_optimization.stage=3", "zero_optimization.zero_hpz_partition_size=2"}},
                    {"sequence", {"parallel.data=2", "parallel.sequence=2"}},
                    {"pipeline of 3", {"parallel.pipeline=3", "model.n_layer=4"}},
                    {"context", {"parallel.data=2", "parallel.context=2", "zero_optimization.stage=2"}},
                    {"replicas of shards",
                     {"parallel.data=4", "zero_optimization.stage=3", "zero_optimization.mics_shard_size=2"}}});
}

BOOST_AUTO_TEST_CASE(every_tier_and_optimizer_has_the_bits_of_one_process) {
  equal_in_many(3,
                {{"parameters in files",
                  with({"parallel.data=2", "zero_optimization.stage=3", "zero_optimization.offload_param.device=nvme",
                        "zero_optimization.offload_param.nvme_path=swap"},
                       in_files)},
                 {"ZenFlow",
                  {"parallel.data=2", "zero_optimization.stage=2", "zero_optimization.offload_optimizer.device=cpu",
                   "zero_optimization.zenflow={topk_ratio: 0.1, update_interval: 2, full_warm_up_rounds: 0, "
                   "overlap_step: true}"}},
                 {"compressed weights from step 3 on",
                  {"parallel.data=2", "zero_optimization.stage=1",
                   "compression_training.weight_quantization={shared_parameters: {enabled: true, schedule_offset: 2}, "
                   "different_groups: {a: {params: {start_bits: 8, target_bits: 8}, modules: ['*']}}}"}},
                 {"states in files", with({"parallel.data=2", "zero_optimization.stage=2"}, in_files)},
                 {"LAMB", {"parallel.data=2", "optimizer.type=Lamb", "zero_optimization.stage=2"}},
                 {"Muon", {"parallel.data=2", "optimizer.type=Muon", "zero_optimization.stage=1"}},
                 {"SuperOffload",
                  {"parallel.data=2", "zero_optimization.stage=3",
                   "zero_optimization.offload_optimizer={device: cpu, super_offload: true}"}}});
}

BOOST_AUTO_TEST_CASE(every_pruned_model_has_the_bits_of_one_process) {
  const auto pruned = [](const char* section, const char* method, const char* modules) {
    return fmt::format(
        "compression_training.{}={{shared_parameters: {{enabled: true, method: {}, schedule_offset: 2}}, "
        "different_groups: {{a: {{params: {{dense_ratio: 0.5}}, modules: ['{}']}}}}}}",
        section, method, modules);
  };
  equal_in_many(
      1, {{"blocks by their gradients",
           {"parallel.data=2", "zero_optimization.stage=3", pruned("sparse_pruning", "snip_momentum", "mlp.c_fc")}},
          {"learned rows", {"parallel.data=2", "zero_optimization.stage=2", pruned("row_pruning", "topk", "mlp.c_fc")}},
          {"the largest elements",
           {"parallel.data=2", "zero_optimization.stage=1", pruned("sparse_pruning", "l1", "*")}}});
}

BOOST_AUTO_TEST_CASE(every_schedule_of_passes_has_the_bits_of_one_process) {
  const std::vector<std::string> gathered{"parallel.data=2", "zero_optimization.stage=3",
                                          "zero_optimization.stage3_param_persistence_threshold=0"};
  equal_in_many(1, {{"passes by steps",
                     with(gathered, {"compile={deepcompile: true, schedule: [{step: 0, passes: [prefetch]}, {step: 2, "
                                     "passes: [selective_gather, recompute]}, {step: 4, passes: []}]}"})},
                    {"passes by predicted times", with(gathered, {"compile={deepcompile: true}"})}});
}

BOOST_AUTO_TEST_SUITE_END()
