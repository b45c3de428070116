// Tests refused settings of the memory tiers of states, with the exact position and text of each error.
#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(offload_refusals)

using namespace troupe::config;

namespace {

std::string with_zero(const std::string& keys) { return smallest_with("stage: 3", keys); }
std::string zero(const std::string& keys) { return errors_of(with_zero(keys)); }
/// Returns the errors of the smallest file with `line` added as line 9.
std::string line_9(const std::string& line) { return errors_of(smallest + line + "\n"); }

const std::string on_disk = "stage: 3, offload_optimizer: {device: nvme, nvme_path: /disk}";

}  // namespace

BOOST_AUTO_TEST_CASE(a_device_is_one_of_three) {
  BOOST_TEST(zero("stage: 3, offload_param: {device: gpu}") ==
             "j.yaml:8:55: error: zero_optimization.offload_param.device: wanted one of none, cpu, nvme, got gpu\n");
  BOOST_TEST(line_9("cluster: {offload_activations: disk}") ==
             "j.yaml:9:32: error: cluster.offload_activations: wanted one of none, cpu, nvme, got disk\n");
  BOOST_TEST(zero("stage: 3, offload_param: {device: none}, offload_optimizer: null") == "");
}

BOOST_AUTO_TEST_CASE(swap_files_need_a_folder) {
  BOOST_TEST(zero("stage: 3, offload_optimizer: {device: nvme}") ==
             "j.yaml:8:50: error: zero_optimization.offload_optimizer.nvme_path: wanted a path, got nothing: device "
             "nvme needs it\n");
  BOOST_TEST(zero("stage: 3, offload_param: {device: nvme, nvme_path: null}") ==
             "j.yaml:8:61: error: zero_optimization.offload_param.nvme_path: wanted a path, got nothing: device nvme "
             "needs it\n");
  BOOST_TEST(zero(on_disk + ", offload_param: {device: nvme, nvme_path: /other}") ==
             "j.yaml:8:125: error: zero_optimization.offload_param.nvme_path: wanted the nvme_path of "
             "offload_optimizer, /disk, since a run has one folder of swap files, got /other\n");
  BOOST_TEST(zero(on_disk + ", offload_param: {device: cpu, nvme_path: /other}") == "");
  BOOST_TEST(zero("stage: 3, offload_param: {device: nvme, nvme_path: /disk, buffer_count: 0}") ==
             "j.yaml:8:93: error: zero_optimization.offload_param.buffer_count: wanted an integer of at least 1 with "
             "device nvme, got 0\n");
}

BOOST_AUTO_TEST_CASE(a_stage_has_the_states_that_it_offloads) {
  BOOST_TEST(zero("stage: 0, offload_optimizer: {device: cpu}") ==
             "j.yaml:8:59: error: zero_optimization.offload_optimizer.device: wanted stage 1, 2 or 3, got stage 0\n");
  for (const std::string stage : {"1", "2", "3"}) {
    BOOST_TEST_INFO_SCOPE(stage);
    BOOST_TEST(zero("stage: " + stage + ", offload_optimizer: {device: cpu}") == "");
    BOOST_TEST(zero("stage: " + stage + ", offload_optimizer: {device: nvme, nvme_path: /disk}") == "");
  }
  BOOST_TEST(zero("stage: 2, offload_param: {device: cpu}") ==
             "j.yaml:8:55: error: zero_optimization.offload_param.device: wanted stage 3, got stage 2\n");
  BOOST_TEST(zero("stage: 2, offload_optimizer: {device: cpu, ratio: 0.5}") ==
             "j.yaml:8:71: error: zero_optimization.offload_optimizer.ratio: wanted stage 3, got stage 2\n");
  BOOST_TEST(zero("stage: 3, offload_optimizer: {device: cpu, ratio: 1.5}") ==
             "j.yaml:8:71: error: zero_optimization.offload_optimizer.ratio: wanted a number from 0 to 1, got 1.5\n");
  // A value that was already refused causes no further errors in rules that read it.
  BOOST_TEST(zero("stage: 4, offload_optimizer: {device: nvme, super_offload: true}") ==
             "j.yaml:8:28: error: zero_optimization.stage: wanted an integer from 0 to 3, got 4\n");
}

BOOST_AUTO_TEST_CASE(optimizers_of_whole_parameters_do_not_swap) {
  for (const std::string type : {"LAMB", "Muon"}) {
    BOOST_TEST_INFO_SCOPE(type);
    const std::string name = type == "LAMB" ? "lamb" : "muon";
    std::string text = with_zero(on_disk);
    text.replace(text.find("AdamW, params: {lr: 1.0e-3}"), 27, type);
    BOOST_TEST(errors_of(text) ==
               "j.yaml:8:59: error: zero_optimization.offload_optimizer.device: nvme: wanted an "
               "optimizer that updates element by element, got " +
                   name + ", which needs whole parameters\n");
    BOOST_TEST(errors_of(text, {{"zero_optimization.offload_optimizer.device=cpu"}}) == "");
  }
}

BOOST_AUTO_TEST_CASE(updates_ahead_of_the_norm_need_the_host_and_stage_3) {
  const std::string key = "error: zero_optimization.offload_optimizer.super_offload: ";
  BOOST_TEST(zero("stage: 2, offload_optimizer: {device: cpu, super_offload: true}") ==
             "j.yaml:8:79: " + key + "wanted stage 3, got stage 2\n");
  BOOST_TEST(zero("stage: 3, offload_optimizer: {super_offload: true}") ==
             "j.yaml:8:66: " + key + "requires offload_optimizer.device: cpu, got none\n");
  BOOST_TEST(zero("stage: 3, offload_optimizer: {device: nvme, nvme_path: a, super_offload: true}") ==
             "j.yaml:8:94: " + key + "requires offload_optimizer.device: cpu, got nvme\n");
  BOOST_TEST(errors_of(with_zero("stage: 3, offload_optimizer: {device: cpu, super_offload: true}"),
                       {{"optimizer={type: lamb}"}}) ==
             "j.yaml:8:79: " + key +
                 "wanted an optimizer that updates element by element, got lamb, which needs whole parameters\n");
}

BOOST_AUTO_TEST_CASE(early_updates_need_what_can_be_undone) {
  const std::string error = "error: cluster.early_updates: ", yes = "cluster: {early_updates: true}";
  const std::string files = "stage: 2, offload_optimizer: {device: nvme, nvme_path: a}";
  const auto refusal = [&](const std::string& zero_section, const std::string& more) {
    const std::string text = errors_of(with_zero(zero_section) + yes + "\n" + more);
    return text.substr(std::min(text.size(), text.find("error: ")));
  };
  BOOST_TEST(refusal(files, "").empty());
  BOOST_TEST(refusal(files, "gradient_clipping: 0\nfp16: {enabled: true}\n").empty());
  BOOST_TEST(errors_of(with_zero(files), {{"cluster.early_updates=true", "cluster.swap_gradients=true"}}).empty());
  BOOST_TEST(refusal("stage: 1", "").empty());
  BOOST_TEST(refusal("stage: 3, offload_optimizer: {device: cpu}, zenflow: {}", "") ==
             error + "wanted auto or false with zenflow, got true\n");
  for (const char* name : {"lamb", "muon"})
    BOOST_TEST_CONTEXT(name)
    BOOST_TEST(errors_of(with_zero("stage: 1"),
                         {{std::string("optimizer={type: ") + name + "}", "cluster.early_updates=true"}})
                   .ends_with(error + "true: wanted an optimizer that updates element by element, got " + name +
                              ", which needs whole parameters\n"));
  BOOST_TEST(line_9("cluster: {early_updates: soon}") ==
             "j.yaml:9:26: error: cluster.early_updates: wanted true or false, got soon\n");
}

BOOST_AUTO_TEST_CASE(late_updates_count_steps_and_need_parameters_in_memory) {
  const std::string cpu = "stage: 3, offload_optimizer: {device: cpu}, ";
  BOOST_TEST(zero(cpu + "zenflow: {}") == "");
  BOOST_TEST(zero(cpu + "zenflow: null") == "");
  BOOST_TEST(zero(cpu + "zenflow: {select_strategy: epoch, select_interval: 1}")
                 .ends_with("error: zero_optimization.zenflow.select_strategy: wanted step or auto, got epoch, which "
                            "this version does not support\n"));
  BOOST_TEST(
      zero(cpu + "zenflow: {}, offload_param: {device: nvme, nvme_path: a}")
          .ends_with(
              "error: zero_optimization.zenflow: requires parameters in memory, got offload_param.device: nvme\n"));
}

BOOST_AUTO_TEST_CASE(zenflow_has_its_own_rules) {
  const load_options plain{.overrides = {}, .strict = false, .steps = {}, .read_as = reading::either};
  const auto zenflow = [&](const std::string& keys, const std::string& device = "cpu") {
    return errors_of(
        "zero_optimization:\n  stage: 2\n  offload_optimizer: {device: " + device + "}\n  zenflow: " + keys, plain);
  };
  const std::string root = "error: zero_optimization.zenflow";
  BOOST_TEST(zenflow("{}", "none") == "j.yaml:4:12: " + root + ": requires offload_optimizer.device: cpu, got none\n");
  BOOST_TEST(zenflow("{}") == "");
  BOOST_TEST(zenflow("null", "none") == "");
  BOOST_TEST(zenflow("{select_interval: 3}") ==
             "j.yaml:4:30: " + root + ".select_interval: wanted auto, as select_strategy is auto, got 3\n");
  BOOST_TEST(zenflow("{select_strategy: step}") ==
             "j.yaml:4:12: " + root +
                 ".select_interval: wanted an integer of at least 1 with select_strategy step, got auto\n");
  BOOST_TEST(zenflow("{select_strategy: step, select_interval: 3, update_interval: 4}") ==
             "j.yaml:4:53: " + root + ".select_interval: wanted at least update_interval, which is 4, got 3\n");
  BOOST_TEST(zenflow("{select_strategy: epoch, select_interval: 3, update_interval: 4}") == "");
  BOOST_TEST(zenflow("{select_strategy: often}") ==
             "j.yaml:4:30: " + root + ".select_strategy: wanted one of step, epoch, got often\n");
  BOOST_TEST(zenflow("{topk_ratio: 1}") ==
             "j.yaml:4:25: " + root + ".topk_ratio: wanted a number above 0 and below 1, got 1\n");
  BOOST_TEST(zenflow("{}\n  cpu_offload: 3").starts_with("j.yaml:5:16: error: zero_optimization.cpu_offload: "));
}

BOOST_AUTO_TEST_CASE(activations_that_wait_elsewhere_are_those_of_recomputed_units) {
  const std::string checkpointing = "activation_checkpointing: {enabled: true}\n";
  BOOST_TEST(line_9("cluster: {offload_activations: cpu}") ==
             "j.yaml:9:32: error: cluster.offload_activations: cpu: requires activation_checkpointing.enabled: true, "
             "got false\n");
  BOOST_TEST(line_9(checkpointing + "cluster: {offload_activations: cpu, offload_activations_units: 2}") == "");
  BOOST_TEST(line_9(checkpointing + "cluster: {offload_activations: nvme}") ==
             "j.yaml:10:32: error: cluster.offload_activations: nvme: wanted nvme_path in offload_optimizer or "
             "offload_param, got neither\n");
  BOOST_TEST(errors_of(with_zero("stage: 3, offload_param: {nvme_path: /disk}") + checkpointing +
                       "cluster: {offload_activations: nvme}\n") == "");
  BOOST_TEST(line_9("activation_checkpointing: {cpu_checkpointing: true}") ==
             "j.yaml:9:47: error: activation_checkpointing.cpu_checkpointing: true: requires "
             "activation_checkpointing.enabled: true, got false\n");
  BOOST_TEST(line_9("activation_checkpointing: {enabled: true, cpu_checkpointing: true}\n"
                    "cluster: {offload_activations: none}") ==
             "j.yaml:10:32: error: cluster.offload_activations: wanted cpu or nvme with "
             "activation_checkpointing.cpu_checkpointing, got none\n");
  BOOST_TEST(line_9("cluster: {offload_activations_units: 0}") ==
             "j.yaml:9:38: error: cluster.offload_activations_units: wanted an integer from 1 to 1000000, got 0\n");
}

BOOST_AUTO_TEST_CASE(requests_are_whole_pages_and_bounded) {
  BOOST_TEST(line_9("aio: {block_size: 5000}") ==
             "j.yaml:9:19: error: aio.block_size: wanted a multiple of 4096, got 5000\n");
  BOOST_TEST(line_9("aio: {block_size: 2GiB}") ==
             "j.yaml:9:19: error: aio.block_size: wanted an integer from 1 to 1073741824, got 2GiB\n");
  BOOST_TEST(line_9("aio: {queue_depth: 5000}") ==
             "j.yaml:9:20: error: aio.queue_depth: wanted an integer from 1 to 4096, got 5000\n");
  BOOST_TEST(line_9("aio: {intra_op_parallelism: 65}") ==
             "j.yaml:9:29: error: aio.intra_op_parallelism: wanted an integer from 1 to 64, got 65\n");
  BOOST_TEST(line_9("cluster: {swap_gradients: true}") ==
             "j.yaml:9:27: error: cluster.swap_gradients: true: wanted device nvme in offload_optimizer or "
             "offload_param, got neither\n");
  BOOST_TEST(line_9("cluster: {swap_gradients: sometimes}") ==
             "j.yaml:9:27: error: cluster.swap_gradients: wanted true or false, got sometimes\n");
}

BOOST_AUTO_TEST_SUITE_END()
