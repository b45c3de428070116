// Tests offloading of recomputed units' inputs to the host or to swap files until backward: the results must not change
// by a bit.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(activations)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 5;
constexpr uint32_t windows = 2;  // number of host-memory windows of a plan that offloads to nvme

const std::string zero = "zero_optimization.";
const settings fp32 = {};
const settings bf16 = {"bf16.enabled=true"};

settings degrees(int ranks, int accumulation) {
  return {fmt::format("parallel.data={}", ranks), fmt::format("gradient_accumulation_steps={}", accumulation),
          "gradient_order=per_micro_batch"};
}
settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }

uint32_t count(const plan::rank_plan& p, plan::kind k) {
  return static_cast<uint32_t>(std::count_if(p.instructions.begin(), p.instructions.end(), [k](const auto& x) {
    return x.kind == k && x.what == plan::swapped::activations;
  }));
}

/// Trains a model once with all activations on the device, and compares that run with runs that offload activations.
class comparison {
 public:
  comparison(const std::string& model, settings common)
      : job_(model), common_(std::move(common)), reference_(train(job_, common_, steps)) {
    BOOST_TEST(reference_.losses.front() != reference_.losses.back());
    BOOST_TEST(reference_.memory.offloaded_activations == 0U);
  }

  /// Compares the reference with a run that offloads the inputs of `units` units (0: of all recomputed units) to
  /// `tier`.
  void check(const std::string& tier, uint32_t units, const settings& other) const {
    settings set = common_ + settings{"activation_checkpointing.enabled=true", "cluster.offload_activations=" + tier} +
                   folder() + other;
    if (units > 0) set.push_back(fmt::format("cluster.offload_activations_units={}", units));
    BOOST_TEST_CONTEXT(text_of(set)) {
      const auto s = job_.open(set);
      check_same(result_of(*s, steps), reference_);
      const auto& p = s->training_plan(0);
      const auto recomputed = static_cast<uint32_t>(p.table().units.size() - 1);
      const uint32_t wanted = units == 0 ? recomputed : std::min(units, recomputed);
      const uint32_t filed = tier == "nvme" && wanted > windows ? wanted - windows : 0;
      BOOST_TEST(count(p, plan::kind::swap_out) == filed * p.options().accumulation);
      BOOST_TEST(count(p, plan::kind::swap_in) == filed * p.options().accumulation);
      uint64_t bytes = 0;
      for (uint32_t u = 1; u <= wanted - filed; ++u) bytes += (p.table().units[u].input_bytes + 4095) / 4096 * 4096;
      BOOST_TEST(s->memory()[0].resident.offloaded_activations == bytes);
    }
  }

  [[nodiscard]] settings folder() const { return {zero + "offload_optimizer.nvme_path=" + path()}; }
  [[nodiscard]] settings states_on_disk() const {
    return {zero + "offload_optimizer.device=nvme", zero + "offload_param.device=nvme",
            zero + "offload_param.nvme_path=" + path(), zero + "sub_group_size=8192"};
  }

 private:
  [[nodiscard]] std::string path() const { return (job_.folder().path() / "swap").string(); }

  small_job job_;
  settings common_;
  run_result reference_;
};

}  // namespace

// The jobs cover all kinds of cuts. With tensor or sequence ranks, attention keeps all activations.
BOOST_AUTO_TEST_CASE(segments_that_keep_less_leave_the_bits) {
  const settings light = {"activation_checkpointing.enabled=true", "activation_checkpointing.selective=true"};
  const std::vector<settings> jobs = {
      fp32 + degrees(2, 2) + stage(3),
      bf16 + degrees(1, 4) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
      fp32 + degrees(1, 1) + settings{"parallel.tensor=2"},
      bf16 + degrees(1, 1) + settings{"parallel.tensor=2", "parallel.sharded_norms=true"},
      fp32 + degrees(1, 1) + settings{"parallel.sequence=2"},
      fp32 + degrees(1, 1) + settings{"parallel.context=2"}};
  for (const std::string& model : {tiny_gpt2_with_dropout, tiny_llama})
    for (const settings& set : jobs) BOOST_TEST_CONTEXT(text_of(set)) {
        const small_job job(model);
        const auto all = job.open(set), less = job.open(set + light);
        BOOST_TEST(less->training_plan(0).memory.activations < all->training_plan(0).memory.activations);
        check_same(result_of(*less, steps), result_of(*all, steps));
      }
}

BOOST_AUTO_TEST_CASE(gpt2_in_fp32_has_the_same_bits_however_many_units_are_offloaded) {
  const comparison c(tiny_gpt2, fp32 + degrees(2, 1));
  for (const char* tier : {"cpu", "nvme"})
    for (uint32_t units : {1U, 2U, 4U, 0U}) c.check(tier, units, stage(units % 4));
}

BOOST_AUTO_TEST_CASE(gpt2_with_dropout_in_bf16_over_three_micro_batches) {
  const comparison c(tiny_gpt2_with_dropout, bf16 + degrees(2, 3));
  c.check("cpu", 0, stage(2));
  c.check("nvme", 0, stage(1));
  c.check("nvme", 5, stage(3));
}

BOOST_AUTO_TEST_CASE(llama_in_both_types) {
  const comparison wide(tiny_llama, fp32 + degrees(2, 3)), narrow(tiny_llama, bf16 + degrees(1, 1));
  for (const auto* c : {&wide, &narrow}) {
    c->check("cpu", 3, stage(3));
    c->check("nvme", 0, stage(3));
  }
}

BOOST_AUTO_TEST_CASE(activations_share_the_swap_file_with_parameters_and_optimizer) {
  const comparison wide(tiny_gpt2, fp32 + degrees(2, 3)), narrow(tiny_llama, bf16 + degrees(2, 1));
  for (const auto* c : {&wide, &narrow}) {
    c->check("nvme", 0, stage(3) + c->states_on_disk());
    c->check("cpu", 0, stage(3) + c->states_on_disk());
  }
}

BOOST_AUTO_TEST_SUITE_END()
