// Tests that settings which cannot be combined with `device: cuda` are refused, each with the position of its own key.
#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(device)

using namespace troupe::config;

namespace {

/// Returns the errors of the smallest file on a GPU, with `lines` in place of its degrees.
std::string on_gpu(const std::string& lines) {
  return errors_of(smallest_with("parallel: {data: 2}", lines + "\ndevice: cuda"));
}
bool refuses(const std::string& lines, const std::string& sentence) {
  const std::string all = on_gpu(lines);
  BOOST_TEST_INFO(all);
  return all.find("error: " + sentence) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_device_is_cpu_or_cuda) {
  BOOST_TEST(errors_of(smallest + "device: cpu\n") == "");
  BOOST_TEST(errors_of(smallest + "device: gpu\n") == "j.yaml:9:9: error: device: wanted one of cpu, cuda, got gpu\n");
  BOOST_TEST(on_gpu("parallel: {data: 4}") == "");
}

BOOST_AUTO_TEST_CASE(settings_that_a_gpu_does_not_know_yet_are_refused_by_their_keys) {
  for (const std::string axis : {"pipeline", "tensor", "sequence", "context"})
    BOOST_TEST(refuses("parallel: {" + axis + ": 2}", "parallel." + axis + ": device: cuda supports only 1 for now"));
  BOOST_TEST(refuses("data_types: {param_dtype: fp64}", "data_types"));
  BOOST_TEST(refuses("cluster: {offload_activations: cpu}\nactivation_checkpointing: {enabled: true}",
                     "cluster.offload_activations: device: cuda supports only none for now"));
  BOOST_TEST(refuses("cluster: {early_updates: true}\ngradient_clipping: 0",
                     "cluster.early_updates: device: cuda supports only false or auto for now"));
  BOOST_TEST(refuses("loss: {label_smoothing: 0.1}",
                     "loss.label_smoothing: device: cuda supports only a loss without label smoothing for now"));
  BOOST_TEST(
      refuses("loss: {z_loss: 1.0e-4}", "loss.z_loss: device: cuda supports only a loss without z-loss for now"));
  BOOST_TEST(refuses("ema: {}",
                     "ema: device: cuda supports only an average of weights whose states are on the host "
                     "(zero_optimization.offload_optimizer.device: cpu) for now"));
  BOOST_TEST(refuses("parallel: {data: 2}\ncluster: {processes: 2}",
                     "cluster.processes: device: cuda supports only one process for now"));
}

BOOST_AUTO_TEST_CASE(updates_before_the_vote_are_not_chosen_on_a_gpu_and_refused_where_somebody_asks) {
  const auto offload = [](const std::string& optimizer) {
    return errors_of(smallest_with("stage: 3", "stage: 3, offload_optimizer: {" + optimizer + "}") +
                     "gradient_clipping: 0\ndevice: cuda\n");
  };
  BOOST_TEST(offload("device: nvme, nvme_path: /disk") == "");
  BOOST_TEST(offload("device: cpu, super_offload: true") ==
             "j.yaml:8:79: error: zero_optimization.offload_optimizer.super_offload: device: cuda supports only "
             "updates after the vote (false) for now\n");
}

BOOST_AUTO_TEST_CASE(settings_of_a_gpu_are_refused_on_the_cpu_unless_they_are_the_defaults) {
  const auto on_cpu = [](const std::string& setting) { return errors_of(smallest + "cuda: {" + setting + "}\n"); };
  const auto refused = [](const std::string& key) {
    return ": error: cuda." + key + ": requires device: cuda, got device: cpu\n";
  };
  for (const auto& [key, value] :
       {std::pair{"memory_limit", "4GiB"}, {"tf32", "true"}, {"deterministic", "true"}, {"devices", "[1]"}}) {
    const std::string setting = std::string(key) + ": " + value;
    BOOST_TEST(on_gpu("parallel: {data: 2}\ncuda: {" + setting + "}") == "");
    const std::string said = on_cpu(setting);
    BOOST_TEST(said.substr(said.find(": error")) == refused(key));
  }
  BOOST_TEST(on_cpu("memory_limit: 0, tf32: false, deterministic: false, devices: [0]") == "");
}

BOOST_AUTO_TEST_CASE(one_gpu_is_named_by_its_index_and_several_are_refused) {
  const auto named = [](const std::string& list) { return "parallel: {data: 2}\ncuda: {devices: " + list + "}"; };
  BOOST_TEST(refuses(named("[0, 1]"), "cuda.devices: device: cuda supports only one index for now"));
  BOOST_TEST(refuses(named("[]"), "cuda.devices: wanted a list of at least one index, got []"));
  BOOST_TEST(refuses(named("[-1]"), "cuda.devices: wanted a list of integers from 0 to 127, got [-1]"));
  BOOST_TEST(refuses(named("0"), "cuda.devices: wanted a list of integers from 0 to 127, got 0"));
}

BOOST_AUTO_TEST_SUITE_END()
