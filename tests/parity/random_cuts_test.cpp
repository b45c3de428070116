// Tests randomly drawn jobs: the bits always equal those of the run without a pipeline at stage 0 with the same data,
// tensor, sequence and context degrees, gradient order, treatment of tied gradients and choice of sharded norms. `make
// soak` draws two thousand.
#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "config/sections/unit_passes.hpp"
#include "plan/choose/compile.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(random_cuts)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 4;
constexpr uint64_t draws = 10;
constexpr uint32_t ranks_max = 8;
const std::string zero = "zero_optimization.";

uint64_t draws_wanted() {
  const char* cases = std::getenv("TROUPE_CASES");  // number of small test cases; a draw runs as long as ten of them
  return cases == nullptr ? draws : std::max<uint64_t>(draws, std::strtoull(cases, nullptr, 10) / 10);
}

class dice {
 public:
  explicit dice(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return random_() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  std::string one_of(std::initializer_list<const char*> all) { return all.begin()[below(all.size())]; }
  uint32_t number_of(std::initializer_list<uint32_t> all) { return all.begin()[below(all.size())]; }

 private:
  std::mt19937_64 random_;
};

struct drawn {
  std::string model;
  settings common, other;
  uint32_t data = 1, stage = 0;
  std::string axis;      // mesh axis of the ranks that compute the same samples, or empty
  uint32_t sharing = 1;  // number of ranks that compute the same samples
  uint32_t stages = 1;   // number of pipeline ranks
  bool recomputes = false;
  bool by_element = true;  // true: the optimizer updates each element independently
};

void draw_sharing(dice& d, drawn& out) {
  out.axis = d.one_of({"tensor", "sequence", "context"});
  out.sharing = d.number_of({2, 2, 3, 4});
  out.data = std::min(out.data, out.sharing > 2 ? 1U : 2U);
}

void draw_job(dice& d, drawn& out) {
  out.model = std::vector<std::string>{tiny_gpt2, tiny_gpt2_with_dropout, tiny_llama}[d.below(3)];
  out.data = d.number_of({1, 2, 2, 3, 4});
  const std::string optimizer = d.one_of({"AdamW", "AdamW", "AdamW", "Lion", "SGD", "Lamb", "Muon"});
  out.by_element = optimizer != "Lamb" && optimizer != "Muon";
  if (d.one_in(2)) draw_sharing(d, out);
  out.common = {fmt::format("parallel.data={}", out.data),
                "gradient_accumulation_steps=" + d.one_of({"1", "2", "3", "4", "6"}),
                "gradient_order=" + d.one_of({"per_step", "per_micro_batch"}),
                "tied_gradients=per_use",
                "gradient_clipping=" + d.one_of({"0", "0.1", "1.0"}),
                "optimizer.type=" + optimizer};
  if (out.sharing > 1) out.common.push_back(fmt::format("parallel.{}={}", out.axis, out.sharing));
  if (out.axis == "tensor" && d.one_in(2))
    out.common.push_back("tensor_parallel.exchange_pieces=" + d.one_of({"2", "3", "5"}));
  if (optimizer != "AdamW") out.common.emplace_back("optimizer.params={lr: 1.0e-3}");
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
    default:
      break;
  }
}

// Draws one or two compression techniques that begin at a random update.
void draw_compression(dice& d, drawn& out) {
  const std::string root = "compression_training.", weights = root + "weight_quantization.",
                    inputs = root + "activation_quantization.", shared = "shared_parameters.";
  const std::string group = "different_groups.all.params.";
  const bool cuts = out.axis == "tensor";
  if (d.one_in(2)) {
    const bool in_forward = d.one_in(2), sums = d.one_in(3);
    const std::string target = sums ? d.one_of({"1", "2"}) : d.one_of({"3", "4", "8"});
    out.common = out.common + settings{weights + shared + "enabled=true",
                                       weights + shared + "schedule_offset=" + d.one_of({"0", "1", "2"}),
                                       weights + shared + "quantize_groups=" + d.one_of({"1", "2", "16"}),
                                       weights + group + "start_bits=8", weights + group + "target_bits=" + target};
    if (!sums) out.common.push_back(weights + shared + "quantization_type=" + d.one_of({"symmetric", "asymmetric"}));
    if (!sums && d.one_in(3)) out.common.push_back(weights + shared + "rounding=stochastic");
    if (in_forward)
      out.common.push_back(weights + shared + "quantize_weight_in_forward=true");
    else if (d.one_in(2))
      out.common.push_back(weights + shared + "fp16_mixed_quantize={enabled: true, quantize_change_ratio: 0.4}");
  }
  if (!cuts && d.one_in(2))
    out.common = out.common + settings{inputs + shared + "enabled=true",
                                       inputs + shared + "schedule_offset=" + d.one_of({"0", "1", "2"}),
                                       inputs + shared + "quantization_type=" + d.one_of({"symmetric", "asymmetric"}),
                                       inputs + shared + "range_calibration=" + d.one_of({"dynamic", "static"}),
                                       inputs + group + "bits=" + d.one_of({"4", "8"})};
  for (const char* technique : {"sparse_pruning", "row_pruning"}) {
    if (!d.one_in(3)) continue;
    const std::string section = root + technique + ".";
    out.common = out.common +
                 settings{section + shared + "enabled=true", section + shared + "method=" + d.one_of({"l1", "topk"}),
                          section + shared + "schedule_offset=" + d.one_of({"0", "1", "2"}),
                          section + group + "dense_ratio=" + d.one_of({"0.2", "0.7"}),
                          section + "different_groups.all.modules=['" + d.one_of({"mlp", "attn", "(mlp|attn)"}) + "']"};
  }
}

void draw_cut(dice& d, drawn& out) {
  uint32_t ranks = d.number_of({1, 2, 2, 3, 3, 4});
  while (ranks * out.data * out.sharing > ranks_max) --ranks;
  const std::string schedule = d.one_of(
      {"gpipe", "1f1b", "looped_bfs", "interleaved_1f1b", "zb_h1", "zb_h2", "zb1p", "zb_v", "dual_pipe_v", "search"});
  const bool folded = schedule == "zb_v" || schedule == "dual_pipe_v";
  const bool chunked = schedule == "looped_bfs" || schedule == "interleaved_1f1b" || schedule == "zb1p";
  if (folded) ranks = std::min(ranks, 3U);
  const uint64_t chunks = folded ? 2 : chunked && ranks <= 3 ? 1 + d.below(2) : 1;
  out.stages = ranks;
  out.other.push_back(fmt::format("parallel.pipeline={}", ranks));
  if (ranks * chunks == 1) return;
  out.other = out.other + settings{"pipeline.schedule=" + schedule, fmt::format("pipeline.chunks={}", chunks),
                                   "pipeline.partition=" + d.one_of({"best", "uniform", "parameters"})};
}

void draw_states(dice& d, const std::string& folder, drawn& out) {
  out.stage = static_cast<uint32_t>(d.below(4));
  out.other.push_back(fmt::format("{}stage={}", zero, out.stage));
  bool near = false;
  if (out.data % 2 == 0 && out.stage > 0 && d.one_in(3))
    out.other.push_back(fmt::format("parallel.shard={}", out.data == 4 ? 1 + d.below(2) : 1));
  else if (out.data % 2 == 0 && out.stage == 3 && (near = d.one_in(2)))
    out.other.push_back(zero + "zero_hpz_partition_size=2");
  if (d.one_in(2))
    out.other = out.other + settings{fmt::format("{}reduce_bucket_size={}", zero, 1U << (8 + d.below(8))),
                                     fmt::format("{}sub_group_size={}", zero, 1U << (8 + d.below(8))),
                                     zero + "stage3_param_persistence_threshold=" + d.one_of({"0", "100", "100000"}),
                                     zero + "stage3_max_reuse_distance=" + d.one_of({"0", "30000", "1000000000"}),
                                     zero + "stage3_prefetch_bucket_size=" + d.one_of({"0", "20000", "10000000"})};
  const bool files = out.stage > 0 && out.by_element && d.one_in(3), host = out.stage > 0 && !files && d.one_in(3);
  const settings path = {zero + "offload_optimizer.nvme_path=" + folder};
  if (files) out.other = out.other + settings{zero + "offload_optimizer.device=nvme"} + path;
  if (files && out.stage == 3 && !near && d.one_in(2))
    out.other = out.other + settings{zero + "offload_param.device=nvme", zero + "offload_param.nvme_path=" + folder,
                                     "cluster.swap_gradients=" + d.one_of({"true", "false"})};
  if (host) out.other = out.other + settings{zero + "offload_optimizer.device=cpu"};
  if (host && out.stage == 3 && out.by_element && d.one_in(2))
    out.other.push_back(zero + "offload_optimizer.super_offload=true");
  out.recomputes = d.one_in(3);
  if (out.recomputes)
    out.other = out.other + settings{"activation_checkpointing.enabled=true",
                                     "cluster.offload_activations=" +
                                         (files ? d.one_of({"none", "cpu", "nvme"}) : d.one_of({"none", "cpu"}))};
  if (!files && out.by_element && d.one_in(3)) out.other.push_back("cluster.early_updates=true");
}

// Draws settings of exchanges between tensor or sequence ranks: which data they exchange, when, and which results they
// keep.
void draw_exchanges(dice& d, drawn& out) {
  if (out.axis != "tensor") {
    if (d.one_in(3)) out.other.push_back("cluster.row_tile_bytes=" + d.one_of({"4096", "20000"}));
    if (d.one_in(3)) out.other.emplace_back("cluster.mlp_tile_bytes=4096");
    return;
  }
  if (d.one_in(2)) {
    out.common.emplace_back("parallel.sharded_norms=true");
    std::erase_if(out.common, [](const std::string& s) { return s.starts_with("tensor_parallel.exchange_pieces"); });
    if (out.recomputes && d.one_in(2)) out.other.emplace_back("activation_checkpointing.partition_activations=true");
    if (d.one_in(3)) out.other.emplace_back("cluster.mlp_tile_bytes=4096");
  } else if (out.sharing == 2 && out.data * out.stages * 4 <= ranks_max && d.one_in(2)) {
    out.common.push_back("parallel." + d.one_of({"sequence", "context"}) + "=2");
  }
  if (d.one_in(3)) out.other.emplace_back("tensor_parallel.tp_overlap_comm=true");
}

std::string some_passes(dice& d) {
  std::string out;
  for (const auto& x : plan::option_passes())
    if (x.keeps_bits && !config::places_states(std::string(x.name)) && d.one_in(2))
      out += (out.empty() ? "" : ", ") + std::string(x.name);
  return "[" + out + "]";
}

/// Returns the smallest possible memory budget from the error text of a refused job, or an empty text if it was refused
/// for another reason.
std::string least_of(const std::string& refusal) {
  constexpr std::string_view before = "compile.memory_budget: wanted at least ";
  const size_t at = refusal.find(before);
  if (at == std::string::npos) return {};
  const size_t first = at + before.size();
  return refusal.substr(first, refusal.find(' ', first) - first);
}

// Draws optimisation passes for the start and for step 2, or the smallest memory budget that the first passes allow.
void draw_passes(dice& d, const small_job& job, drawn& out) {
  if (d.one_in(2)) return;
  const std::string first = some_passes(d);
  const bool limited = d.one_in(2);
  out.other = out.other + settings{"compile.deepcompile=true",
                                   "compile.schedule=[{step: 0, passes: " + first +
                                       "}, {step: 2, passes: " + (limited ? first : some_passes(d)) + "}]"};
  if (!limited) return;
  const auto refused = job.try_open(out.common + out.other + settings{"compile.memory_budget=1"});
  if (const std::string least = refused ? "" : least_of(refused.error().text); !least.empty())
    out.other.push_back("compile.memory_budget=" + least);
}

}  // namespace

BOOST_AUTO_TEST_CASE(leave_the_bits_of_the_uncut_run) {
  for (uint64_t seed = 0; seed < draws_wanted(); ++seed) {
    dice d(seed), of_exchanges(~seed), of_compression(seed + 1'000'000);
    drawn what;
    draw_job(d, what);
    const small_job job(what.model);
    draw_cut(d, what);
    draw_states(d, (job.folder().path() / "swap").string(), what);
    draw_exchanges(of_exchanges, what);
    if (of_compression.one_in(2)) draw_compression(of_compression, what);
    draw_passes(d, job, what);
    BOOST_TEST_CONTEXT("seed " << seed << ": " << what.model << text_of(what.common + what.other)) {
      try {
        const auto reference = train(job, what.common + settings{zero + "stage=0"}, steps);
        check_same(train(job, what.common + what.other, steps), reference);
      } catch (const std::exception& e) {  // caught here to report the seed as well
        BOOST_ERROR(e.what());
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
