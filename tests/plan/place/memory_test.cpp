// Compares the memory table of a plan with formulas written in this file, and with DeepSpeed's sizes for each ZeRO
// stage.
#include <algorithm>

#include "core/math.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(memory)

using namespace troupe::plan;
using troupe::core::dtype;
using troupe::core::size_of;

namespace {

/// Returns the number of elements of 2 bytes that `n` elements occupy with their padding to 64 bytes.
uint64_t padded(uint64_t n) { return troupe::core::round_up(n, 32); }

uint64_t padded_whole(const rank_plan& p) {
  uint64_t n = 0;
  for (const auto& q : p.table().parameters) n += padded(q.numel());
  return n;
}
uint64_t padded_own(const rank_plan& p) {
  uint64_t n = 0;
  for (uint32_t q = 0; q < p.table().parameters.size(); ++q) n += padded(p.layout->partition.of(q, p.rank).count);
  return n;
}

/// The bytes of gradient slots that are filled or being reduced at the same time, if instructions run in serial order,
/// and the bytes of the largest slot.
struct slots_in_use {
  uint64_t peak = 0, largest = 0;
};
slots_in_use bucket_slots(const rank_plan& p) {
  slots_in_use out;
  std::vector<int64_t> change(p.instructions.size() + 1, 0);
  for (const auto& b : p.buffers) {
    if (b.pool != pool::buckets) continue;
    change[b.first] += static_cast<int64_t>(b.bytes);
    change[b.last + 1] -= static_cast<int64_t>(b.bytes);
    out.largest = std::max(out.largest, b.bytes);
  }
  int64_t now = 0;
  for (const int64_t c : change) out.peak = std::max(out.peak, static_cast<uint64_t>(now += c));
  return out;
}

struct types {
  dtype parameter, accumulation;
};
constexpr types all_types[] = {{dtype::f32, dtype::f32}, {dtype::bf16, dtype::f32}, {dtype::bf16, dtype::bf16},
                               {dtype::f16, dtype::f32}, {dtype::f16, dtype::f16},  {dtype::f64, dtype::f64}};

void for_each_case(const shared_table& table, auto f) {
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const auto& t : all_types)
      for (const uint32_t accumulation : {1U, 3U})
        for (const bool micro_first : {false, true})
          for (const uint32_t ranks : {1U, 2U, 4U}) {
            auto o = small_options(ranks, stage, accumulation);
            o.types.parameter = o.types.communication = t.parameter;
            o.types.accumulation = t.accumulation;
            o.gradients.sum_micro_first = micro_first;
            BOOST_TEST_CONTEXT("stage " << stage << ", " << name_of(t.parameter) << " with " << name_of(t.accumulation)
                                        << " gradients, accumulation " << accumulation << ", ranks " << ranks)
            for (const auto& p : plans_of(table, o)) f(*p);
          }
}

}  // namespace

BOOST_AUTO_TEST_CASE(resident_bytes_are_the_formulas_for_every_stage_dtype_and_accumulation) {
  for_each_case(gpt_table(2, 65, 257, true), [](const rank_plan& p) {
    const auto& o = p.options();
    const uint64_t whole = padded_whole(p), own = padded_own(p), state = o.stage == 0 ? whole : own;
    const uint64_t master = o.types.parameter == dtype::f64 ? 8 : 4;
    // Gradients stay in one slot for the whole step at stages 0 and 1, or whenever micro-batches are summed first.
    const bool stays = o.accumulation == 1 ? o.stage <= 1 : o.gradients.sum_micro_first;
    BOOST_TEST(p.memory.parameters == (o.stage == 3 ? own : whole) * size_of(o.types.parameter));
    BOOST_TEST(p.memory.master == (size_of(o.types.parameter) >= 4 ? 0 : state * master));
    BOOST_TEST(p.memory.moments == 2 * state * master);
    BOOST_TEST(p.memory.accumulated == (stays ? 0 : state * size_of(o.types.accumulation)));
    if (stays) BOOST_TEST(p.memory.gradients == whole * size_of(o.types.accumulation));
    uint64_t blocks = 0;
    for (const auto& q : p.table().parameters) blocks += troupe::core::div_up(q.numel(), 1024);
    BOOST_TEST(p.memory.votes == 8 * (blocks + o.ranks() * o.accumulation));
    BOOST_TEST((p.memory.gathered > 0) == (o.stage == 3));
  });
}

// Beyond its contents, a pool may hold two more gradient slots than are in use at once, and the parameters that are
// resident at once.
BOOST_AUTO_TEST_CASE(pools_are_little_larger_than_their_contents) {
  for (const bool overlap : {false, true})
    for (const uint64_t bucket : {1ULL, 20'000ULL, 60'000ULL, 500'000'000ULL})
      for (const uint64_t prefetch : {0ULL, 20'000ULL, 1'000'000'000ULL})
        for (const uint32_t accumulation : {1U, 4U}) {
          BOOST_TEST_INFO_SCOPE("accumulation " << accumulation);
          BOOST_TEST_INFO_SCOPE("bucket " << bucket);
          BOOST_TEST_INFO_SCOPE("overlap " << overlap);
          BOOST_TEST_INFO_SCOPE("prefetch " << prefetch);
          auto o = small_options(2, 3, accumulation);
          o.overlap = overlap;
          o.gradients.reduce_bucket = bucket;
          o.gathering.prefetch_bucket = prefetch;
          const auto p = plans_of(gpt_table(6, 64, 256, true), o)[0];
          const auto slots = bucket_slots(*p);
          BOOST_TEST(p->memory.gradients <= slots.peak + 2 * slots.largest);
          BOOST_TEST(p->memory.gathered >= p->peak_live_elements * size_of(o.types.parameter));
          BOOST_TEST(static_cast<double>(p->memory.gathered) <=
                     1.5 * static_cast<double>(p->peak_live_elements * size_of(o.types.parameter)));
        }
}

// The bounds are DeepSpeed's static sizes for P elements that fill their blocks, in the stage's own summation order:
// 16-bit gradients, or 2 bytes more for each gradient that is kept in fp32 (the "18 to 20 P" of DeepSpeed's
// documentation).
BOOST_AUTO_TEST_CASE(no_stage_needs_more_than_the_references_static_sizes_and_named_buffers) {
  for_each_case(chain_table({8192, 4096, 16'384, 4096}), [](const rank_plan& p) {
    const auto& o = p.options();
    if (size_of(o.types.parameter) != 2 || o.gradients.sum_micro_first != (o.stage <= 1)) return;
    const uint64_t n = p.table().numel(), share = n / o.ranks(), wider = size_of(o.types.accumulation) - 2;
    const uint64_t allowed[] = {(16 + wider) * n, (4 + wider) * n + 12 * share, 2 * n + (14 + wider) * share,
                                (16 + wider) * share};
    const bool reused = !o.buckets_stay();
    const auto& m = p.memory;
    BOOST_TEST(m.total() - m.gathered - m.activations - m.votes - (reused ? m.gradients : 0) <= allowed[o.stage]);
  });
}

// Each block has two segments that keep 4096 bytes; the second one may keep 1000 bytes and recompute 5000 in backward.
BOOST_AUTO_TEST_CASE(units_that_keep_less_hold_less_and_take_the_rest_while_they_go_back) {
  troupe::core::model_table light = *gpt_table(3, 64, 256, false);
  for (size_t u = 1; u + 1 < light.units.size(); ++u) light.units[u].segments[1].light = {1000, 5000, 5e5};
  const auto table = std::make_shared<const troupe::core::model_table>(light);
  auto o = small_options(2, 1, 4);
  const auto flops = [&](kind k) {
    double out = 0;
    const auto plans = plans_of(table, o);
    for (const auto& x : plans[0]->instructions) out += x.kind == k && x.micro == 0 ? x.flops : 0;
    return out;
  };
  const auto held = [&] { return plans_of(table, o)[0]->memory.activations; };
  const double forward = flops(kind::forward), backward = flops(kind::backward);
  for (uint32_t light_units = 0; light_units <= 5; ++light_units) {
    BOOST_TEST_INFO_SCOPE("light units " << light_units);
    o.light_before.unit = light_units;
    const auto blocks = std::min<uint64_t>(3, std::max<uint32_t>(1, light_units) - 1);
    // The second segment of the last block keeps all 4096 bytes during its backward, while the activations of all
    // earlier blocks are still kept.
    const uint64_t kept = 8 * 4096 - blocks * 3096;
    BOOST_TEST(held() == (blocks == 3 ? kept - 4096 + 5000 : kept));
    BOOST_TEST(flops(kind::forward) == forward);
    BOOST_TEST(flops(kind::backward) == backward + static_cast<double>(blocks) * 5e5);
  }
  // If a whole unit is recomputed, the recompute omits the product of its last segment, which that segment's backward
  // computes.
  o.light_before = {2, 2};
  BOOST_TEST(held() == 8 * 4096U - 2 * 3096);
  o.recompute = true;
  BOOST_TEST(held() == 4096U + 1000 + 5000);
  BOOST_TEST(flops(kind::recompute) == 3 * 1e6 + 1e6);
  BOOST_TEST(flops(kind::backward) == backward + 3 * 5e5);
  o.mode = mode::evaluate;
  BOOST_TEST(held() == 2 * 4096U);
}

BOOST_AUTO_TEST_CASE(activations_of_one_micro_batch_are_held_or_of_one_unit_when_recomputing) {
  const auto table = gpt_table(3, 64, 256, false);  // a block has two segments of 4096 bytes
  auto o = small_options(2, 1, 4);
  BOOST_TEST(plans_of(table, o)[0]->memory.activations == 8 * 4096U);
  o.recompute = true;
  BOOST_TEST(plans_of(table, o)[0]->memory.activations == 2 * 4096U);
  o.kept_units = {1, 3};  // these units keep their activations while another unit is recomputed
  BOOST_TEST(plans_of(table, o)[0]->memory.activations == (2 * 2 + 2) * 4096U);
  o.kept_units.clear();
  o.recompute = false;
  o.mode = mode::evaluate;
  BOOST_TEST(plans_of(table, o)[0]->memory.activations == 2 * 4096U);
}

BOOST_AUTO_TEST_SUITE_END()
