// Tests that the bytes a session keeps between steps equal the formulas of docs/numerics.md, do not exceed ZeRO's own
// arithmetic, and are freed.
#include <c10/core/Allocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "actors/memory/ledger.hpp"
#include "core/math.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_memory)

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string two_blocks =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";

struct job_case {
  uint32_t stage, ranks, accumulation;
  std::string order;  // value of the key gradient_order
  std::string type;   // type of the parameters: fp32, bf16, fp16 or fp64

  [[nodiscard]] settings set() const {
    settings out = {fmt::format("zero_optimization.stage={}", stage),
                    fmt::format("parallel.data={}", ranks),
                    fmt::format("gradient_accumulation_steps={}", accumulation),
                    "gradient_order=" + order,
                    "zero_optimization.reduce_bucket_size=8192",
                    "zero_optimization.sub_group_size=4096",
                    "zero_optimization.stage3_param_persistence_threshold=0",
                    "zero_optimization.stage3_max_reuse_distance=0",
                    "zero_optimization.stage3_prefetch_bucket_size=0"};
    if (type == "fp64") out.emplace_back("data_types.param_dtype=fp64");
    if (type == "bf16" || type == "fp16") out.push_back(type + ".enabled=true");
    return out;
  }
  [[nodiscard]] uint64_t width() const { return type == "fp64" ? 8 : type == "fp32" ? 4 : 2; }
  [[nodiscard]] uint64_t state_width() const { return type == "fp64" ? 8 : 4; }
  [[nodiscard]] bool has_masters() const { return width() == 2; }
  [[nodiscard]] bool micro_batches_first() const { return order == "per_step" || (order == "auto" && stage <= 1); }
  [[nodiscard]] bool buckets_stay() const { return accumulation == 1 ? stage <= 1 : micro_batches_first(); }
  [[nodiscard]] std::string text() const {
    return fmt::format("stage {}, {} ranks, {} micro-batches, {}, {}", stage, ranks, accumulation, order, type);
  }
};

std::vector<job_case> cases() {
  std::vector<job_case> out;
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    for (const char* type : {"fp32", "bf16"}) {
      out.push_back({stage, 2, 1, "auto", type});
      out.push_back({stage, 3, 3, "per_step", type});
      out.push_back({stage, 3, 3, "per_micro_batch", type});
      out.push_back({stage, 2, 3, "auto", type});
    }
    out.push_back({stage, 3, 1, "auto", "fp16"});
    out.push_back({stage, 2, 3, "auto", "fp64"});
  }
  return out;
}

constexpr uint64_t alignment_elements = 32;
uint64_t padded(uint64_t elements) { return core::round_up(elements, alignment_elements); }

// Returns the number of elements that a rank owns. Each parameter is divided at multiples of 1,024 elements, and the
// plan chooses how many of these blocks a rank owns.
uint64_t slice_elements(const plan::rank_plan& p, uint32_t rank, bool with_padding) {
  uint64_t n = 0;
  for (uint32_t q = 0; q < p.table().parameters.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    const auto own = p.layout->partition.of(q, rank);
    if (own.count > 0) BOOST_TEST(own.first % 1024 == 0U);
    n += with_padding ? padded(own.count) : own.count;
  }
  return n;
}

struct sizes {
  uint64_t parameters = 0;  // number of parameters, P in docs/numerics.md
  uint64_t full = 0;        // number of elements including padding, F in docs/numerics.md
  uint64_t blocks = 0;
};
sizes sizes_of(const core::model_table& t) {
  sizes s;
  for (const auto& p : t.parameters) {
    s.parameters += p.numel();
    s.full += padded(p.numel());
    s.blocks += (p.numel() + 1023) / 1024;
  }
  return s;
}

void check_formulas(const job_case& c, const actors::session& session) {
  const sizes n = sizes_of(session.table());
  const auto memory = session.memory();
  BOOST_TEST_REQUIRE(memory.size() == c.ranks);
  for (uint32_t r = 0; r < c.ranks; ++r) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    const auto& p = session.training_plan(r);
    const auto& m = memory[r].resident;
    const uint64_t own = slice_elements(p, r, true);
    const uint64_t state = c.stage == 0 ? n.full : own;
    BOOST_TEST(m.parameters == (c.stage == 3 ? own : n.full) * c.width());
    BOOST_TEST(m.master == (c.has_masters() ? state * 4 : 0));
    BOOST_TEST(m.moments == 2 * state * c.state_width());
    BOOST_TEST(m.accumulated == (c.buckets_stay() ? 0 : state * c.width()));
    BOOST_TEST(m.votes == 8 * (n.blocks + c.ranks * c.accumulation));
    BOOST_TEST(m.activations == 0U);
    if (c.buckets_stay()) {
      BOOST_TEST(m.gradients == n.full * c.width());
    } else {
      // The tied weight's own bucket is open from the head's backward to the embedding's. Of the other buckets, those
      // that one unit writes to are open, and at most two more are being reduced.
      uint64_t tied = 0, largest = 0, open = 0;
      for (const auto& b : p.layout->buckets)
        if (b.parameters.front().parameter == 0)
          tied = b.elements;
        else
          largest = std::max(largest, b.elements);
      for (const auto& u : p.table().units) {
        std::set<uint32_t> written;
        for (uint32_t q : u.parameters)
          if (q != 0) written.insert(p.layout->bucket_of[q]);
        uint64_t elements = 0;
        for (uint32_t b : written) elements += p.layout->buckets[b].elements;
        open = std::max(open, elements);
      }
      BOOST_TEST(p.layout->buckets.size() >= 5U);
      BOOST_TEST(m.gradients >= (tied + largest) * c.width());
      BOOST_TEST(m.gradients <= (tied + open + 2 * largest) * c.width());
    }
    BOOST_TEST((m.gathered > 0) == (c.stage == 3));
    BOOST_TEST(m.gathered < n.full * c.width());
  }
}

// Returns the static bytes of all ranks together by ZeRO's formula: two bytes for each parameter, two for its gradient,
// twelve for its master weight and moments. A single rank may own up to one block more than its even share.
uint64_t static_bytes(uint32_t stage, uint64_t ranks, uint64_t parameters) {
  switch (stage) {
    case 0:
      return 16 * parameters * ranks;
    case 1:
      return (4 * ranks + 12) * parameters;
    case 2:
      return (2 * ranks + 14) * parameters;
    default:
      return 16 * parameters;
  }
}

void check_bound(const job_case& c, const actors::session& session) {
  const sizes n = sizes_of(session.table());
  uint64_t total = 0, named = 0;
  for (uint32_t r = 0; r < c.ranks; ++r) {
    const auto m = session.memory()[r].resident;
    const auto& p = session.training_plan(r);
    total += m.total();
    named += m.gathered + m.votes + (c.buckets_stay() ? 0 : m.gradients);
    named += 16 * (n.full - n.parameters + slice_elements(p, r, true) - slice_elements(p, r, false));
  }
  BOOST_TEST(total - named <= static_bytes(c.stage, c.ranks, n.parameters));
}

size_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// Waits until the process has at most `wanted` threads. A thread that has finished its work still exists for a moment,
// and no event reports its end.
bool threads_fall_to(size_t wanted) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (threads() > wanted && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
  return threads() <= wanted;
}

}  // namespace

BOOST_AUTO_TEST_CASE(resident_bytes_equal_the_formulas_of_every_stage_dtype_and_accumulation) {
  const small_job job(two_blocks);
  for (const auto& c : cases()) BOOST_TEST_CONTEXT(c.text()) {
      const auto session = job.open(c.set());
      check_formulas(c, *session);
    }
}

BOOST_AUTO_TEST_CASE(sixteen_bit_training_takes_at_most_zeros_sizes_plus_the_named_buffers) {
  const small_job job(two_blocks);
  for (const auto& c : cases())
    if (c.has_masters() && c.order == "auto") BOOST_TEST_CONTEXT(c.text()) {
        check_bound(c, *job.open(c.set()));
      }
}

BOOST_AUTO_TEST_CASE(recomputing_activations_lowers_their_peak) {
  const small_job job;
  const settings common = {"data.sequence_length=24", "train_micro_batch_size_per_gpu=4"};
  uint64_t peak[2] = {0, 0};
  for (int recompute = 0; recompute < 2; ++recompute) {
    auto s = job.open(common + settings{recompute != 0 ? "activation_checkpointing.enabled=true"
                                                       : "activation_checkpointing.enabled=false"});
    step_of(*s);
    peak[recompute] = s->memory()[0].activations_peak_bytes;
  }
  BOOST_TEST(peak[1] > 0U);
  BOOST_TEST(2 * peak[1] < peak[0]);
}

BOOST_AUTO_TEST_CASE(segments_that_keep_less_take_what_the_plan_says) {
  const std::string llama =
      "model: {model_type: llama, num_hidden_layers: 3, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: "
      "2, "
      "intermediate_size: 96, max_position_embeddings: 24, vocab_size: 96}\n";
  for (const std::string& model : {two_blocks, llama}) {
    BOOST_TEST_INFO_SCOPE(model);
    const small_job job(model);
    const settings common = {"data.sequence_length=24", "train_micro_batch_size_per_gpu=64"};
    const settings all = {},
                   light = {"activation_checkpointing.enabled=true", "activation_checkpointing.selective=true"};
    const auto peak_of = [&](const settings& set) {
      auto s = job.open(common + set);
      step_of(*s);
      const auto planned = static_cast<double>(s->training_plan(0).memory.activations);
      const auto peak = static_cast<double>(s->memory()[0].activations_peak_bytes);
      // The plan does not count the gradients of a segment's results, which are at most as wide as its widest product.
      const double gradients = 64.0 * 24 * 3 * 2 * 96 * sizeof(float);
      BOOST_TEST(peak >= 0.98 * planned);
      BOOST_TEST(peak <= planned + gradients);
      return std::pair(planned, peak);
    };
    const auto [planned_all, all_peak] = peak_of(all);
    const auto [planned_light, light_peak] = peak_of(light);
    BOOST_TEST(planned_light < 0.75 * planned_all);
    BOOST_TEST(light_peak < 0.8 * all_peak);
  }
}

BOOST_AUTO_TEST_CASE(offloaded_inputs_do_not_count_as_activation_memory) {
  const small_job job;
  const settings common = {"data.sequence_length=24", "train_micro_batch_size_per_gpu=4",
                           "activation_checkpointing.enabled=true",
                           "zero_optimization.offload_optimizer.nvme_path=" + (job.folder().path() / "swap").string()};
  const uint64_t input = 4 * 24 * 32 * sizeof(float), blocks = 6;
  for (const char* tensor : {"1", "2"}) {
    BOOST_TEST_INFO_SCOPE(tensor);
    const auto memory_with = [&](const std::string& tier) {
      auto s =
          job.open(common + settings{"cluster.offload_activations=" + tier, std::string("parallel.tensor=") + tensor});
      step_of(*s);
      BOOST_TEST(s->training_plan(0).table().units[1].input_bytes == input);
      return s->memory()[0];
    };
    const auto kept = memory_with("none"), host = memory_with("cpu"), files = memory_with("nvme");
    // When the head's backward begins, its own input and the inputs of all blocks are offloaded to host memory.
    BOOST_TEST(host.activations_peak_bytes + blocks * input <= kept.activations_peak_bytes);
    BOOST_TEST(files.activations_peak_bytes == host.activations_peak_bytes);
    BOOST_TEST(kept.resident.offloaded_activations == 0U);
    BOOST_TEST(host.resident.offloaded_activations == (blocks + 1) * input);
    BOOST_TEST(files.resident.offloaded_activations == 2 * input);
    BOOST_TEST(files.resident.digests < input);
    BOOST_TEST(files.resident.total() + files.activations_peak_bytes + (blocks - 3) * input <=
               kept.resident.total() + kept.activations_peak_bytes);
  }
}

BOOST_AUTO_TEST_CASE(sessions_give_back_memory_allocator_and_threads) {
  const small_job job(two_blocks);
  const auto* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  step_of(*job.open({"parallel.data=2"}));  // starts what a process starts only once and never ends
  const size_t threads_before = threads();
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    auto s = job.open({"parallel.data=2", "zero_optimization.stage=3"});
    step_of(*s);
    BOOST_TEST(threads() > threads_before);
    BOOST_TEST(c10::GetAllocator(c10::DeviceType::CPU) != allocator);
    s.reset();
    BOOST_TEST(c10::GetAllocator(c10::DeviceType::CPU) == allocator);
    BOOST_TEST(threads_fall_to(threads_before));
    actors::allocation_ledger books(2);
    for (uint32_t r = 0; r < 2; ++r) BOOST_TEST_CONTEXT("r " << r) BOOST_TEST(books.peak_bytes(books.owner(r)) == 0U);
  }
}

BOOST_AUTO_TEST_CASE(two_sessions_at_once_count_their_memory_separately) {
  const small_job job(two_blocks);
  auto a = job.open({}), b = job.open({"parallel.data=2"});
  const double first = step_of(*a).loss;
  step_of(*b);
  b.reset();
  step_of(*a);
  auto again = job.open({});
  BOOST_TEST(step_of(*again).loss == first);
}

BOOST_AUTO_TEST_SUITE_END()
