// Settings that do not go together with `device: cuda` are refused, each at its own key.
#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(device)

using namespace troupe::config;

namespace {

/// The errors of the smallest file on a GPU with these lines instead of its degrees.
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
    BOOST_TEST(refuses("parallel: {" + axis + ": 2}", "parallel." + axis + ": device: cuda wants 1 for now"));
  BOOST_TEST(refuses("data_types: {param_dtype: fp64}", "data_types"));
  BOOST_TEST(refuses("cluster: {offload_activations: cpu}\nactivation_checkpointing: {enabled: true}",
                     "cluster.offload_activations: device: cuda wants none for now"));
  BOOST_TEST(refuses("cluster: {early_updates: true}\ngradient_clipping: 0",
                     "cluster.early_updates: device: cuda wants false or auto for now"));
  BOOST_TEST(refuses("parallel: {data: 2}\ncluster: {processes: 2}",
                     "cluster.processes: device: cuda wants one process for now"));
}

BOOST_AUTO_TEST_CASE(updates_before_the_vote_are_not_chosen_on_a_gpu_and_refused_where_somebody_asks) {
  const auto offload = [](const std::string& optimizer) {
    return errors_of(smallest_with("stage: 3", "stage: 3, offload_optimizer: {" + optimizer + "}") +
                     "gradient_clipping: 0\ndevice: cuda\n");
  };
  BOOST_TEST(offload("device: nvme, nvme_path: /disk") == "");
  BOOST_TEST(offload("device: cpu, super_offload: true") ==
             "j.yaml:8:79: error: zero_optimization.offload_optimizer.super_offload: device: cuda wants updates behind "
             "the vote for now\n");
}

BOOST_AUTO_TEST_CASE(settings_of_a_gpu_are_refused_on_the_cpu) {
  BOOST_TEST(on_gpu("parallel: {data: 2}\ncuda: {memory_limit: 4GiB}") == "");
  BOOST_TEST(errors_of(smallest + "cuda: {memory_limit: 4GiB}\n") ==
             "j.yaml:9:22: error: cuda.memory_limit: it wants device: cuda, got device: cpu\n");
}

BOOST_AUTO_TEST_SUITE_END()
