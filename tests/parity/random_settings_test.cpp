// Tests randomly drawn settings: the bits always equal those of stage 0 with default settings. `make soak` draws
// hundreds.
#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(random_settings)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 4;
constexpr uint64_t draws = 6;

uint64_t draws_wanted() {
  const char* seeds =
      std::getenv("TROUPE_SEEDS");  // number of seeds of the simulation tests; a draw runs as long as twenty of them
  return seeds == nullptr ? draws : std::max<uint64_t>(draws, std::strtoull(seeds, nullptr, 10) / 20);
}

class dice {
 public:
  explicit dice(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }
  std::string truth() { return coin() ? "true" : "false"; }
  /// Returns 0, or a number of elements from about 2^0 to 2^18: from less than a bias to more than the whole model.
  std::string elements() { return below(6) == 0 ? "0" : fmt::to_string((uint64_t{1} << below(19)) + below(100)); }
  std::string positive() { return fmt::to_string((uint64_t{1} << below(19)) + below(100)); }
  std::string one_of(std::initializer_list<const char*> all) { return all.begin()[below(all.size())]; }

 private:
  std::mt19937_64 random_;
};

struct drawn {
  std::string model;
  settings common, other;
};

/// Draws compression techniques, each with some probability.
settings compressed(dice& d) {
  settings out;
  const auto add = [&](const std::string& technique, const settings& more) {
    const std::string section = "compression_training." + technique + ".";
    out.push_back(section + "shared_parameters.enabled=true");
    out.push_back(fmt::format("{}shared_parameters.schedule_offset={}", section, d.below(3)));
    out.push_back(section + "different_groups.all.modules=[\"" + d.one_of({"mlp", "attn", "*"}) + "\"]");
    for (const std::string& key : more) out.push_back(section + key);
  };
  const std::string group = "different_groups.all.params.";
  if (d.below(3) == 0)
    add("weight_quantization", {"shared_parameters.quantize_weight_in_forward=true", group + "start_bits=8",
                                group + "target_bits=" + d.one_of({"1", "2", "3", "8"})});
  for (const char* pruning : {"sparse_pruning", "row_pruning"})
    if (d.below(3) == 0) add(pruning, {group + "dense_ratio=" + d.one_of({"0.1", "0.5", "1"})});
  return out;
}

drawn draw(dice& d) {
  drawn out;
  out.model = std::vector<std::string>{tiny_gpt2, tiny_gpt2_with_dropout, tiny_llama}[d.below(3)];
  out.common = {fmt::format("parallel.data={}", 1 + d.below(4)),
                fmt::format("gradient_accumulation_steps={}", 1 + d.below(3)),
                "gradient_order=" + d.one_of({"per_step", "per_micro_batch"}),
                fmt::format("train_micro_batch_size_per_gpu={}", 1 + d.below(3)),
                "gradient_clipping=" + d.one_of({"0", "0.1", "1.0"})};
  switch (d.below(5)) {
    case 0:
      out.common.emplace_back("bf16.enabled=true");
      break;
    case 1:
      out.common = out.common + settings{"fp16.enabled=true", "fp16.initial_scale_power=" + d.one_of({"4", "24"})};
      break;
    case 2:
      out.common = out.common + settings{"bf16.enabled=true", "data_types.grad_accum_dtype=fp32"};
      break;
    case 3:
      out.common = out.common + settings{"bf16.enabled=true", "communication_data_type=fp32"};
      break;
    default:
      break;
  }
  out.common.push_back("optimizer.type=" + d.one_of({"AdamW", "AdamW", "Adagrad", "Lion", "SGD", "Lamb", "Muon"}));
  if (d.below(3) == 0)
    out.model += "parameter_groups: [{match: '" + d.one_of({"bias|norm|ln_", "1", "attn"}) + "', " +
                 d.one_of({"trainable: false", "lr: 1.0e-3", "weight_decay: 0"}) + "}]\n";
  const std::string zero = "zero_optimization.";
  out.other = {fmt::format("{}stage={}", zero, d.below(4)),
               zero + "reduce_bucket_size=" + d.positive(),
               zero + "allgather_bucket_size=" + d.positive(),
               zero + "sub_group_size=" + d.positive(),
               zero + "overlap_comm=" + d.truth(),
               zero + "reduce_scatter=" + d.truth(),
               zero + "round_robin_gradients=" + d.truth(),
               zero + "stage3_param_persistence_threshold=" + d.elements(),
               zero + "stage3_prefetch_bucket_size=" + d.elements(),
               zero + "stage3_max_live_parameters=" + d.elements(),
               zero + "stage3_max_reuse_distance=" + d.elements(),
               "activation_checkpointing.enabled=" + d.truth()};
  if (out.other.back().ends_with("true"))
    out.other = out.other + settings{"cluster.offload_activations=" + d.one_of({"none", "cpu", "nvme"}),
                                     fmt::format("cluster.offload_activations_units={}", 1 + d.below(8))};
  out.common = out.common + compressed(d);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(leave_the_bits_of_stage_0) {
  for (uint64_t seed = 0; seed < draws_wanted(); ++seed) {
    dice d(seed);
    const auto what = draw(d);
    BOOST_TEST_CONTEXT("seed " << seed << ": " << what.model << text_of(what.common + what.other)) {
      const small_job job(what.model);
      const settings folder = {"zero_optimization.offload_optimizer.nvme_path=" +
                               (job.folder().path() / "swap").string()};
      const auto reference = train(job, what.common + settings{"zero_optimization.stage=0"}, steps);
      check_same(train(job, what.common + what.other + folder, steps), reference);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
