// Drawn jobs on the simulated device with late streams, each in several orders of the streams' work; the two halves of
// the jobs are two suites, so that they can be tested at the same time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/crash/wanted_cases.hpp"
#include "tests/far/device.hpp"
#include "tests/far/late.hpp"
#include "tests/parity/many_rows.hpp"
#include "tests/parity/places.hpp"
#include "tests/sanitizer_options.hpp"

namespace troupe::tests {

/// Steps of each run.
inline constexpr uint64_t late_steps = 3;
/// Settings of LAMB with a min_coeff so small that it limits no ratio.
inline const settings lamb = {"optimizer={type: LAMB, params: {lr: 1.0e-2, min_coeff: 1.0e-6}}"};
inline const settings muon = {"optimizer={type: Muon, params: {lr: 1.0e-2}}"};
inline const settings on_late = {"device=cuda"};

/// Number of seeds, each an order of the streams' work, with which a drawn job is run.
inline constexpr uint64_t orders_of_job = 8;

/// Returns the number of seeds: 500 (48 with the address sanitizer), or the value of TROUPE_SEEDS, but at most 4,000.
inline uint64_t order_seeds() {
  return std::min<uint64_t>(4000, wanted_cases("TROUPE_SEEDS", has_address_sanitizer ? 48 : 500));
}

/// A job on the device whose settings were drawn.
struct drawn_job {
  bool is_llama = false, has_tiles = false;
  settings set;
};

inline drawn_job draw(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](const std::vector<settings>& all) { return all[random() % all.size()]; };
  const settings optimizer_up = {zero + "offload_optimizer.device=cpu"},
                 parameters_up = {zero + "offload_param.device=cpu"};
  drawn_job out;
  out.is_llama = random() % 2 == 0;
  const bool in_files = random() % 8 == 0;
  out.set = in_files ? stage(3) + states_in_files()
                     : one_of({stage(0), stage(1), stage(2), stage(3), stage(1) + optimizer_up, stage(2) + optimizer_up,
                               stage(3) + optimizer_up, stage(3) + optimizer_up + parameters_up});
  out.set = out.set + one_of({{}, {"parallel.data=2"}, {"parallel.data=2"}, {"parallel.data=4"}});
  out.set = out.set + one_of({{}, {"bf16.enabled=true"}, {"fp16.enabled=true", "fp16.initial_scale_power=8"}});
  out.set = out.set + one_of({{}, {"gradient_accumulation_steps=3"}});
  out.set = out.set + one_of({{}, {"activation_checkpointing.enabled=true"}});
  out.has_tiles = random() % 2 == 0;
  if (out.has_tiles) out.set = out.set + tiles_of_one_panel + settings{"train_micro_batch_size_per_gpu=130"};
  if (!out.is_llama) out.set.emplace_back("model.attn_pdrop=0");
  out.set = out.set + one_of({{}, {"gradient_clipping=0.1"}, {"gradient_clipping=0"}});
  const settings lion = {"optimizer={type: Lion, params: {lr: 1.0e-3}}"};
  // Swap files can only contain states of optimizers that update element by element.
  out.set = out.set + (in_files ? one_of({{}, lion}) : one_of({{}, {}, lion, lamb, muon}));
  return out;
}

/// Returns the results of a run on late streams, whose work is done in an order that `seed` decides.
inline run_result trained_late(const small_job& job, const settings& set, uint64_t seed) {
  const far::late_device late(seed);
  return train(job, set + on_late, late_steps);
}

/// Checks that every second drawn job, from number `half` on, has the CPU's bits in each order. Jobs with tiles are
/// compared with the device's prompt streams, because it adds the products of tiles of 16-bit types otherwise than the
/// CPU.
inline void check_orders(uint64_t half) {
  const small_job gpt2, llama(tiny_llama), rows_of_gpt2 = job_of_many_rows(short_gpt2),
                                           rows_of_llama = job_of_many_rows(short_llama);
  for (uint64_t number = half; number * orders_of_job < order_seeds(); number += 2) {
    const uint64_t first = number * orders_of_job;
    const drawn_job drawn = draw(number);
    const small_job& job =
        drawn.is_llama ? (drawn.has_tiles ? rows_of_llama : llama) : (drawn.has_tiles ? rows_of_gpt2 : gpt2);
    BOOST_TEST_CONTEXT((drawn.is_llama ? "llama " : "gpt2 ") << text_of(drawn.set)) {
      BOOST_TEST((tiled_units(*job.open(drawn.set + on_late)) > 0) == drawn.has_tiles);
      const auto wanted = train(job, drawn.has_tiles ? drawn.set + on_late : drawn.set, late_steps);
      for (uint64_t seed = first; seed < std::min(first + orders_of_job, order_seeds()); ++seed) {
        BOOST_TEST_INFO_SCOPE("seed " << seed);
        check_same(trained_late(job, drawn.set, seed), wanted);
      }
    }
  }
}

}  // namespace troupe::tests
