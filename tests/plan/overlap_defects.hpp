// Defines six kinds of defects in the overlap of a step, the last in two variants, each as a pass with a wrong
// assumption would produce it: real plans of small but complete jobs, with one change. The checker refuses each; if the
// plan is run unchecked, some timing makes the defect visible.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/generate/explain.hpp"
#include "tests/plan/pipeline_samples.hpp"

namespace troupe::plan {

/// A defect, the job whose plans it changes, and the texts that the checker's error must contain.
struct overlap_defect {
  std::string name;
  shared_table table;
  plan_options options;
  std::string (*in_draft)(draft&, const rank_plan&) = nullptr;  ///< function that changes the draft; if it is set,
                                                                ///< `in_plan` is null
  void (*in_plan)(rank_plan&) = nullptr;
  /// Texts that the checker's error must contain: the instruction, the instruction that it must wait for, the bytes.
  std::vector<std::string> refusal = {};
};

inline shared_plans healthy_plans(const overlap_defect& d) { return plans_of(d.table, d.options); }

/// Returns plans that all have the defect, as if one generator had written them.
inline shared_plans broken_plans(const overlap_defect& d) {
  plan_options options = d.options;
  if (d.in_draft != nullptr)
    options.passes = {std::make_shared<const pass>(
        pass{"wrong",
             {.needs = {fact::gathers_placed, fact::updates_placed, fact::gradients_placed},
              .provides = {},
              .keeps = all_facts},
             d.in_draft})};
  const auto layout = layout_of(d.table, options);
  shared_plans out;
  for (uint32_t r = 0; r < layout->options.ranks(); ++r) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    auto made = explain(layout, r);
    BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().text));
    auto p = std::make_shared<rank_plan>(*made->plan);
    if (d.in_plan != nullptr) d.in_plan(*p);
    out.push_back(std::move(p));
  }
  return out;
}

namespace defects {

void for_each(draft& d, kind k, auto f) {
  for (handle x = d.first(); x != none; x = d.next(x))
    if (!d.is_mark(x) && d.at(x).kind == k) f(x);
}

/// Releases a bucket after the last backward that writes to it, before its reduction has ended.
inline std::string released_before_its_reduction_ended(draft& d, const rank_plan&) {
  for_each(d, kind::reduce, [&](handle x) {
    handle writer = d.before(x);
    while (d.is_mark(writer) || d.at(writer).kind != kind::backward) writer = d.before(writer);
    d.buffer(d.at(x).slots.gradients).last = writer;
  });
  return "gradients are written";
}

/// Places a bucket in the bytes of the previous one, which is still in use, instead of in the second slot.
inline void bucket_slot_reused(rank_plan& p) {
  std::vector<buffer*> buckets;
  for (auto& b : p.buffers)
    if (b.pool == pool::buckets) buckets.push_back(&b);
  for (size_t i = 1; i < buckets.size(); ++i)
    if (buckets[i]->offset > buckets[i - 1]->offset && buckets[i - 1]->first < buckets[i]->first &&
        buckets[i]->first < buckets[i - 1]->last) {
      buckets[i]->offset = buckets[i - 1]->offset;
      return;
    }
}

/// Reduces a bucket as soon as the first micro-batch has written to it, while the next micro-batch adds to it.
inline std::string added_into_a_gradient_in_flight(draft& d, const rank_plan& p) {
  for_each(d, kind::reduce, [&](handle x) {
    const uint32_t slot = d.at(x).slots.gradients;
    handle first = none;  // the first micro-batch's last backward that writes to the bucket
    for_each(d, kind::backward, [&](handle y) {
      for (const uint32_t q : p.table().units[d.at(y).subject].segments[d.at(y).segment].parameters)
        if (d.at(y).micro == 0 && d.bucket_buffers[size_t{p.layout->bucket_of[q]} * p.options().accumulation] == slot)
          first = y;
    });
    d.depend_on_nothing(x);
    d.depend(x, first);
  });
  return "gradients are there";
}

/// All-gathers updated parameters after the gradient norm is known, before the update has changed them.
inline std::string published_before_updated(draft& d, const rank_plan&) {
  for_each(d, kind::publish, [&](handle x) {
    d.depend_on_nothing(x);
    d.depend(x, d.vote);
  });
  return "the vote is over";
}

/// Gathers into the slot of a unit whose computation has not run yet.
inline void prefetched_into_a_live_slot(rank_plan& p) {
  for (auto& later : p.buffers)
    for (const auto& b : p.buffers)
      if (b.pool == pool::gathered && later.pool == pool::gathered && b.first < later.first && later.first < b.last &&
          later.bytes <= b.bytes) {
        later.offset = b.offset;
        return;
      }
}

/// Releases the slot of a stage's output after the stage has computed it, before it is sent.
inline std::string freed_under_a_send(draft& d, const rank_plan&) {
  for_each(d, kind::send, [&](handle x) {
    lifetime& slot = d.buffer(d.at(x).slots.moved);
    slot.last = slot.first;
    for (handle next = d.next(x); next != none && slot.free_from == none; next = d.next(next))
      if (!d.is_mark(next) && d.at(next).kind == kind::forward) slot.free_from = next;
  });
  return "it is computed";
}

/// Releases a gradient window after the sum is computed, before the disk has read it.
inline std::string freed_under_the_disk(draft& d, const rank_plan&) {
  for_each(d, kind::swap_out, [&](handle x) {
    if (d.at(x).what != swapped::gradients) return;
    lifetime& window = d.buffer(d.at(x).slots.window);
    for_each(d, kind::reduce, [&](handle y) {
      if (d.standing_buffer(d.at(y).slots.window) == d.standing_buffer(d.at(x).slots.window)) window.last = y;
    });
  });
  return "it is summed";
}

/// Returns a model with the structure of a GPT and a hidden state of 16 tokens between units.
inline shared_table model() {
  core::model_table out = *gpt_table(4, 64, 256, false);
  for (size_t u = 1; u < out.units.size(); ++u) out.units[u].input_bytes = 16 * 64 * sizeof(float);
  return std::make_shared<const core::model_table>(std::move(out));
}
inline plan_options prefetching() {
  auto o = small_options(2, 3);
  o.gathering.prefetch_bucket = 100'000;
  return o;
}
inline plan_options in_files() {
  auto o = small_options(2, 2, 2);
  o.tiers.optimizer = tier::nvme;
  o.tiers.swap_gradients = true;
  o.tiers.gradient_slots = 2;
  return o;
}

}  // namespace defects

inline std::vector<overlap_defect> overlap_defects() {
  using namespace defects;
  const auto m = model();
  return {
      {.name = "released before its reduction ended",
       .table = m,
       .options = small_options(2, 2, 2),
       .in_draft = released_before_its_reduction_ended,
       .refusal = {"backward ", "ends the life of ", "the pool of buckets", "reduce bucket "}},
      {.name = "bucket slot reused",
       .table = m,
       .options = small_options(2, 2, 2),
       .in_plan = bucket_slot_reused,
       .refusal = {"backward ", "takes ", "the pool of buckets", "which still uses them"}},
      {.name = "next micro-batch added into a gradient in flight",
       .table = m,
       .options = small_options(2, 1, 2),
       .in_draft = added_into_a_gradient_in_flight,
       .refusal = {"reduce bucket 0", "does not wait for backward ", "micro 1", "which writes to it"}},
      {.name = "publish before update",
       .table = m,
       .options = small_options(2, 1),
       .in_draft = published_before_updated,
       .refusal = {"publish ", "does not wait for update sub-group ", "whose result it publishes"}},
      {.name = "prefetch into a live slot",
       .table = m,
       .options = prefetching(),
       .in_plan = prefetched_into_a_live_slot,
       .refusal = {"gather ", "takes ", "the pool of gathered parameters", "which still uses them"}},
      {.name = "freed under another lane's read: a send's",
       .table = m,
       .options = options_of_pipeline("1f1b", 2, 1, 1),
       .in_draft = freed_under_a_send,
       .refusal = {"forward ", "ends the life of ", "the pool of transfers", "send "}},
      {.name = "freed under another lane's read: the disk's",
       .table = m,
       .options = in_files(),
       .in_draft = freed_under_the_disk,
       .refusal = {"reduce bucket ", "ends the life of ", "the pool of windows onto gradients", "swap_out "}},
  };
}

}  // namespace troupe::plan
