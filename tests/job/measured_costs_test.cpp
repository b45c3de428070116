// Tests whether a run with swapped states measures the machine on which it runs.
#include "job/measured_costs.hpp"

#include <boost/test/unit_test.hpp>

#include <optional>
#include <string>
#include <vector>

#include "job/blueprint.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(measured_costs)

using namespace troupe;

namespace {

/// Returns a configuration that sets all values which the plan could otherwise choose.
config::job_config settled() {
  config::job_config c;
  auto& z = c.zero_optimization;
  z.stage = 3;
  z.offload_optimizer.device = z.offload_param.device = config::offload_device::nvme;
  z.sub_group_size_given = z.reduce_bucket_size_given = true;
  z.offload_optimizer.buffer_count_given = z.offload_param.buffer_count_given = z.offload_param.max_in_cpu_given = true;
  c.swap_gradients = config::swap_choice::never;
  return c;
}

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_measured_where_the_file_leaves_nothing_open) {
  BOOST_TEST(!job::needs_measured_costs(settled()));
}

BOOST_AUTO_TEST_CASE(any_size_left_open_is_chosen_by_measured_rates) {
  const auto open = [](auto change) {
    auto c = settled();
    change(c);
    return job::needs_measured_costs(c);
  };
  BOOST_TEST(open([](auto& c) { c.zero_optimization.sub_group_size_given = false; }));
  BOOST_TEST(open([](auto& c) { c.zero_optimization.offload_optimizer.buffer_count_given = false; }));
  BOOST_TEST(open([](auto& c) { c.zero_optimization.offload_param.buffer_count_given = false; }));
  BOOST_TEST(open([](auto& c) { c.zero_optimization.offload_param.max_in_cpu_given = false; }));
  BOOST_TEST(open([](auto& c) { c.swap_gradients = config::swap_choice::automatic; }));
  BOOST_TEST(open([](auto& c) { c.host_memory_budget = uint64_t{1} << 30; }));
}

BOOST_AUTO_TEST_CASE(kept_constants_are_the_costs_of_a_run_and_only_what_they_lack_is_measured) {
  const auto no_products = [](const config::job_config&) -> double {
    BOOST_ERROR("products were measured");
    return 0;
  };
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& line) { warnings.push_back(line); };
  const tests::scratch_folder folder;
  auto c = settled();
  c.zero_optimization.offload_optimizer.nvme_path = c.zero_optimization.offload_param.nvme_path = folder.path();
  job::model_of_kept kept;
  kept.costs.machine.product_flops_per_s = kept.costs.flops_per_s = 3e9;
  kept.costs.disk_bytes_per_s = kept.costs.disk_read_bytes_per_s = 5;
  BOOST_TEST(job::costs_of_run(c, kept, no_products, warn).disk_bytes_per_s == 5.0);
  BOOST_TEST(job::costs_of_run(c, std::nullopt, no_products, warn).flops_per_s == job::usual_costs(c).flops_per_s);
  c.zero_optimization.sub_group_size_given = false;
  const auto measured = job::costs_of_run(c, kept, no_products, warn);
  BOOST_TEST((measured.machine == kept.costs.machine));
  BOOST_TEST((warnings.empty() ? measured.disk_bytes_per_s > 1000 : measured.disk_bytes_per_s == 5));
  kept.knows_disk = true;
  BOOST_TEST(job::costs_of_run(c, kept, no_products, warn).disk_bytes_per_s == 5.0);
}

BOOST_AUTO_TEST_CASE(sizes_of_states_that_do_not_swap_are_not_chosen) {
  auto c = settled();
  c.zero_optimization.offload_param.device = config::offload_device::cpu;
  c.zero_optimization.offload_param.buffer_count_given = c.zero_optimization.offload_param.max_in_cpu_given = false;
  BOOST_TEST(!job::needs_measured_costs(c));
}

BOOST_AUTO_TEST_SUITE_END()
