// Tests whole runs on the simulated device whose settings together contain every pair of values of ten factors: a run
// has the CPU's bits, and after a save it goes on, or is resumed on the other device. Owns the table of these runs.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "tests/check_ok.hpp"
#include "tests/far/late.hpp"
#include "tests/parity/many_rows.hpp"
#include "tests/parity/places.hpp"

BOOST_AUTO_TEST_SUITE(pairs)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;
/// Largest relative difference of losses and norms where bits differ: the device adds the 16-bit products of several
/// tiles in fp32, and the CPU does not.
constexpr double bound_of_tiles = 2e-2;

const std::string short_qwen3 =
    "model: {model_type: qwen3, num_hidden_layers: 2, hidden_size: 16, num_attention_heads: 2, num_key_value_heads: 1, "
    "head_dim: 8, intermediate_size: 24, max_position_embeddings: 16, vocab_size: 96}\n";

/// A value of a factor: its word in the table, and the settings that give a job this value.
struct value {
  std::string_view word;
  settings set;
};

constexpr size_t num_factors = 10;
using row = std::array<std::string_view, num_factors>;  // [factor]: word of the value

const std::array<std::vector<value>, num_factors>& factors() {
  static const settings cpu = {zero + "offload_optimizer.device=cpu"}, files = states_in_files(),
                        optimizer_in_files(files.begin(), files.begin() + 2);
  static const std::array<std::vector<value>, num_factors> all = {{
      {{"ZeRO 0", stage(0)}, {"ZeRO 1", stage(1)}, {"ZeRO 2", stage(2)}, {"ZeRO 3", stage(3)}},
      // Memory of the optimizer's states; with ", all", also of the parameters.
      {{"device", {}},
       {"cpu", cpu},
       {"cpu, all", cpu + settings{zero + "offload_param.device=cpu"}},
       {"nvme", optimizer_in_files},
       {"nvme, all", files}},
      {{"fp32", {}}, {"bf16", {"bf16.enabled=true"}}, {"fp16", {"fp16.enabled=true", "fp16.initial_scale_power=8"}}},
      {{"GPT-2", {"model.attn_pdrop=0"}}, {"Llama", {}}, {"Qwen3", {}}},
      {{"1 micro", {}}, {"3 micro", {"gradient_accumulation_steps=3"}}},
      {{"1 rank", {}}, {"2 ranks", {"parallel.data=2"}}, {"4 ranks", {"parallel.data=4"}}},
      {{"stored", {}}, {"again", {"activation_checkpointing.enabled=true"}}},
      // 2,080 rows are a panel and a part of the next one.
      {{"whole", {}}, {"tiled", tiles_of_one_panel + settings{"train_micro_batch_size_per_gpu=130"}}},
      // A save between the first two steps, or one that is written while the second step runs.
      {{"no save", {}}, {"save", {}}, {"beside", {}}},
      // Device that continues after the save.
      {{"stays", {}}, {"to cpu", {}}, {"to cuda", {}}},
  }};
  return all;
}

/// Pairs of values that the configuration refuses.
constexpr std::array<std::string_view, 2> refused[] = {
    {"ZeRO 0", "cpu"},      {"ZeRO 0", "cpu, all"},  {"ZeRO 0", "nvme"},     {"ZeRO 0", "nvme, all"},
    {"ZeRO 1", "cpu, all"}, {"ZeRO 1", "nvme, all"}, {"ZeRO 2", "cpu, all"}, {"ZeRO 2", "nvme, all"}};
/// Pairs of values that contradict each other: a run that was not saved cannot be resumed.
constexpr std::array<std::string_view, 2> senseless[] = {{"no save", "to cpu"}, {"no save", "to cuda"}};

constexpr row table[] = {
    {"ZeRO 0", "device", "fp32", "Qwen3", "1 micro", "1 rank", "again", "tiled", "no save", "stays"},
    {"ZeRO 0", "device", "bf16", "GPT-2", "3 micro", "4 ranks", "again", "tiled", "save", "to cpu"},
    {"ZeRO 0", "device", "fp16", "Llama", "3 micro", "2 ranks", "stored", "whole", "beside", "to cuda"},
    {"ZeRO 1", "device", "bf16", "Qwen3", "3 micro", "4 ranks", "again", "tiled", "beside", "to cuda"},
    {"ZeRO 1", "cpu", "bf16", "Llama", "3 micro", "4 ranks", "stored", "whole", "no save", "stays"},
    {"ZeRO 1", "nvme", "fp32", "Llama", "3 micro", "2 ranks", "again", "tiled", "save", "to cpu"},
    {"ZeRO 1", "nvme", "fp16", "GPT-2", "1 micro", "1 rank", "stored", "whole", "beside", "to cuda"},
    {"ZeRO 2", "device", "fp32", "GPT-2", "1 micro", "1 rank", "stored", "tiled", "beside", "stays"},
    {"ZeRO 2", "cpu", "bf16", "Qwen3", "1 micro", "2 ranks", "stored", "whole", "save", "to cpu"},
    {"ZeRO 2", "cpu", "fp16", "Llama", "1 micro", "1 rank", "stored", "whole", "save", "to cuda"},
    {"ZeRO 2", "nvme", "fp16", "Qwen3", "3 micro", "4 ranks", "again", "tiled", "no save", "stays"},
    {"ZeRO 3", "device", "fp32", "GPT-2", "3 micro", "1 rank", "stored", "tiled", "save", "stays"},
    {"ZeRO 3", "cpu", "fp32", "GPT-2", "1 micro", "4 ranks", "again", "tiled", "beside", "to cuda"},
    {"ZeRO 3", "cpu, all", "fp32", "Llama", "3 micro", "2 ranks", "again", "whole", "no save", "stays"},
    {"ZeRO 3", "cpu, all", "bf16", "GPT-2", "1 micro", "4 ranks", "stored", "tiled", "beside", "to cuda"},
    {"ZeRO 3", "cpu, all", "fp16", "Qwen3", "3 micro", "1 rank", "stored", "tiled", "save", "to cpu"},
    {"ZeRO 3", "nvme", "bf16", "GPT-2", "1 micro", "4 ranks", "again", "tiled", "no save", "stays"},
    {"ZeRO 3", "nvme, all", "fp32", "Qwen3", "1 micro", "4 ranks", "again", "whole", "save", "to cuda"},
    {"ZeRO 3", "nvme, all", "bf16", "Llama", "1 micro", "1 rank", "stored", "tiled", "no save", "stays"},
    {"ZeRO 3", "nvme, all", "fp16", "GPT-2", "3 micro", "2 ranks", "again", "whole", "beside", "to cpu"},
};

bool says(const row& r, std::string_view word) { return std::ranges::find(r, word) != r.end(); }

bool excludes(std::string_view a, std::string_view b) {
  const auto is_pair = [&](const auto& x) { return (x[0] == a && x[1] == b) || (x[0] == b && x[1] == a); };
  return std::ranges::any_of(refused, is_pair) || std::ranges::any_of(senseless, is_pair);
}

/// Returns the settings of the value that `word` names, of whichever factor.
const settings& set_of(std::string_view word) {
  for (const auto& factor : factors())
    for (const value& x : factor)
      if (x.word == word) return x.set;
  throw std::logic_error("no factor has the value " + std::string(word));
}

settings set_of(const row& r) {
  settings out;
  for (const std::string_view word : r) out = out + set_of(word);
  return out;
}

std::string text_of(const row& r) {
  std::string out;
  for (const std::string_view word : r) out += (out.empty() ? "" : "; ") + std::string(word);
  return out;
}

/// Runs a row with device: cuda where the row says so, with `set` its other settings. Returns the result of the steps
/// after the save, or of all steps if the run is not saved.
run_result end_of_run(const small_job& job, const row& r, const settings& set) {
  const settings on_device = set + settings{"device=cuda"};
  const scratch_folder folder;
  auto s = job.open(says(r, "to cuda") ? set : on_device);
  BOOST_TEST((tiled_units(*s) > 0) == says(r, "tiled"));
  if (says(r, "no save")) return result_of(*s, steps);
  uint64_t left = steps - 1;
  step_of(*s);
  if (says(r, "beside")) {
    check_ok(s->save_async({.root = folder / "saved"}));
    step_of(*s);
    check_ok(s->wait_for_saves());
    if (says(r, "stays")) --left;
  } else {
    check_ok(s->save({.root = folder / "saved"}));
  }
  if (says(r, "stays")) return result_of(*s, left);
  s.reset();  // the resumed session uses the same folder of swap files
  s = *check_ok(
      actors::session::open({.config = job.config(says(r, "to cuda") ? on_device : set), .resume = folder / "saved"}));
  return result_of(*s, left);
}

/// Returns `all` with the losses and norms of its last `n` steps alone.
run_result last_steps(run_result all, size_t n) {
  const auto cut = [&](std::vector<uint64_t>& x) { x.erase(x.begin(), x.end() - static_cast<std::ptrdiff_t>(n)); };
  cut(all.losses);
  cut(all.norms);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_table_has_every_pair_of_values_that_a_job_can_have) {
  for (size_t f = 0; f < num_factors; ++f) {
    for (const row& r : table) BOOST_TEST(std::ranges::count(factors()[f], r[f], &value::word) == 1, text_of(r));
    for (size_t g = f + 1; g < num_factors; ++g)
      for (const value& a : factors()[f])
        for (const value& b : factors()[g]) {
          const bool is_there =
              std::ranges::any_of(table, [&](const row& r) { return r[f] == a.word && r[g] == b.word; });
          BOOST_TEST(is_there != excludes(a.word, b.word), a.word << " with " << b.word);
        }
  }
}

BOOST_AUTO_TEST_CASE(the_pairs_that_are_left_out_are_refused) {
  const small_job job;
  for (const auto& [a, b] : refused) BOOST_TEST_CONTEXT(a << " with " << b) {
      BOOST_CHECK_THROW((void)job.config(set_of(a) + set_of(b) + settings{"device=cuda"}), std::runtime_error);
    }
}

// Streams are late, in an order that the number of the row decides.
BOOST_AUTO_TEST_CASE(each_run_of_the_table_has_the_bits_of_the_cpu) {
  const small_job gpt2, llama(tiny_llama), qwen3(short_qwen3), rows_of_gpt2 = job_of_many_rows(short_gpt2),
                                                               rows_of_llama = job_of_many_rows(short_llama),
                                                               rows_of_qwen3 = job_of_many_rows(short_qwen3);
  for (size_t n = 0; n < std::size(table); ++n) {
    const row& r = table[n];
    const bool tiled = says(r, "tiled");
    const small_job& job = says(r, "GPT-2")   ? (tiled ? rows_of_gpt2 : gpt2)
                           : says(r, "Llama") ? (tiled ? rows_of_llama : llama)
                                              : (tiled ? rows_of_qwen3 : qwen3);
    BOOST_TEST_CONTEXT(text_of(r)) {
      const settings set = set_of(r);
      const auto all = train(job, set, steps);
      const far::late_device late(n);
      const auto got = end_of_run(job, r, set);
      const auto wanted = last_steps(all, got.losses.size());
      tiled && !says(r, "fp32") ? check_near(got, wanted, bound_of_tiles) : check_same(got, wanted);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
