// Generates models whose segments produce summands, parts of samples or vocabulary shards on each rank of a group, and
// random cuts of such models, for tests of plans and of the code that runs them.
#pragma once

#include "tests/plan/cuts.hpp"

namespace troupe::plan {

/// The degrees of the mesh axes along which ranks compute the same samples together.
struct shared_work {
  uint32_t tensor = 1;
  uint32_t sequence = 1, context = 1;  ///< degrees of the two axes; at most one of them is above 1
  bool vocabulary = false;             ///< true: the vocabulary is sharded over the tensor ranks
  [[nodiscard]] uint32_t ranks() const { return tensor * sequence * context; }
};

/// Returns degrees of two or three along one of the axes, or along the tensor axis and one other axis.
inline shared_work random_work(std::mt19937_64& random) {
  const auto degree = [&] { return static_cast<uint32_t>(2 + random() % 2); };
  const auto which = random() % 5;  // 0 to 2: tensor, sequence or context alone; 3 and 4: tensor with one of the others
  shared_work out;
  if (which == 0 || which > 2) out.tensor = degree();
  if (which == 1 || which == 3) out.sequence = degree();
  if (which == 2 || which == 4) out.context = degree();
  out.vocabulary = out.tensor > 1 && random() % 2 == 0;
  return out;
}

/// Returns a random number of exchanged bytes: whole elements of every type, rarely a multiple of 64. The minimum is
/// 64, because smaller slots of different operations would have equal sizes, and plans of different models would be
/// equal.
inline uint64_t random_exchanged_bytes(std::mt19937_64& random) { return 8 * (8 + random() % 1000); }

/// Adds sequence-parallel exchanges to some blocks: an all-to-all of heads around an inserted attention segment without
/// parameters if `work.sequence` is above 1, otherwise a gather of keys.
inline void cut_sequences(core::model_table& table, const shared_work& work, std::mt19937_64& random) {
  for (size_t u = 1; u + 1 < table.units.size(); ++u) {
    auto& all = table.units[u].segments;
    if (all.size() < 2 || random() % 4 == 0) continue;
    const uint64_t there = random_exchanged_bytes(random), back = random_exchanged_bytes(random);
    if (work.sequence > 1) {
      all.insert(all.begin() + 1, {"attention", {}, 1e6, 4096});
      all[0].output = all[1].input_gradient = {core::exchange_op::swap, there, core::exchange_group::sequence};
      all[1].output = all[2].input_gradient = {core::exchange_op::swap, back, core::exchange_group::sequence};
    } else {
      all[0].output = {core::exchange_op::collect, there, core::exchange_group::sequence};
      all[1].input_gradient = {core::exchange_op::scatter, there, core::exchange_group::sequence};
    }
  }
}

/// Returns, for each parameter, true if it is sharded over tensor ranks or if they compute summands of its gradient. A
/// segment that reads one such parameter reads only such parameters.
inline std::vector<bool> shared_parameters(const core::model_table& table, bool vocabulary, std::mt19937_64& random) {
  std::vector<bool> out(table.parameters.size(), false);
  const auto add = [&](const core::segment_info& s) {
    for (const uint32_t q : s.parameters) out[q] = true;
  };
  for (const auto& u : table.units)
    for (const auto& s : u.segments)
      if (random() % 2 == 0) add(s);
  if (vocabulary) add(table.units.back().segments.back());
  for (size_t before = 0, now = 1; before != now;) {
    before = static_cast<size_t>(std::ranges::count(out, true));
    for (const auto& u : table.units)
      for (const auto& s : u.segments)
        if (std::ranges::any_of(s.parameters, [&](uint32_t q) { return out[q]; })) add(s);
    now = static_cast<size_t>(std::ranges::count(out, true));
  }
  return out;
}

/// Makes some segments produce summands of their outputs, of their inputs' gradients or of both. If the vocabulary is
/// sharded, an exchange gathers the loss terms of each row before a last segment, which computes the loss.
inline void cut_over_tensor(core::model_table& table, const shared_work& work, std::mt19937_64& random) {
  using core::exchange_op;
  const auto shared = shared_parameters(table, work.vocabulary, random);
  for (uint32_t q = 0; q < shared.size(); ++q)
    if (shared[q]) table.parameters[q].share = random() % 2 == 0 ? core::tensor_share::cut : core::tensor_share::summed;
  for (size_t u = 0; u < table.units.size(); ++u) {
    auto& all = table.units[u].segments;
    const bool ends = u + 1 == table.units.size();
    for (size_t s = 0; s < all.size(); ++s) {
      const auto& of = all[s].parameters;
      if (of.empty() ? random() % 4 != 0 : !shared[of.front()]) continue;
      const bool last = s + 1 == all.size();
      const bool gives = all[s].output.op == exchange_op::none && !(ends && last);
      const bool gives_back = all[s].input_gradient.op == exchange_op::none && (u > 0 || s > 0);
      const auto way = random() % 3;
      if (gives && (!gives_back || way != 0))
        all[s].output = {exchange_op::sum, last ? table.units[u + 1].input_bytes : random_exchanged_bytes(random)};
      if (gives_back && (!gives || way != 1))
        all[s].input_gradient = {exchange_op::sum,
                                 s == 0 ? table.units[u].input_bytes : random_exchanged_bytes(random)};
    }
  }
  for (auto& u : table.units)
    for (auto& s : u.segments)
      // A row has 8 bytes, which are whole elements of any type.
      if (s.output.op == exchange_op::sum && random() % 4 != 0) {
        s.output.rows = s.output.bytes / 8;
        s.output.flops = s.forward_flops / 3;
      }
  if (!work.vocabulary) return;
  auto& head = table.units.back().segments;
  head.back().output = {exchange_op::gather, random_exchanged_bytes(random)};
  head.push_back({"loss", {}, 1e6, 64});
}

/// Returns the model with the exchanges that the ranks of a group need to compute it together.
inline core::model_table shared_among(core::model_table table, const shared_work& work, std::mt19937_64& random) {
  for (size_t u = 1; u < table.units.size(); ++u) table.units[u].input_bytes = random_exchanged_bytes(random);
  if (work.sequence * work.context > 1) cut_sequences(table, work, random);
  if (work.tensor > 1) cut_over_tensor(table, work, random);
  return table;
}

/// Returns a random model that is sharded over tensor, sequence or context ranks, and a random cut of it that can be
/// planned.
inline std::pair<shared_table, plan_options> random_shared_cut(std::mt19937_64& random, std::optional<mode> of = {}) {
  for (;;) {
    const shared_work work = random_work(random);
    const bool by_use = random() % 2 == 0;
    shared_table table =
        std::make_shared<const core::model_table>(shared_among(*random_table(random, 2), work, random));
    if (by_use) table = copied(table);
    auto o = random_options(*table, random);
    follow_originals(*table, o.updates.rules);
    if (by_use) o = per_use(std::move(o));
    if (of) o.mode = *of;
    o.overlap_exchanges = random() % 3 == 0;
    if (random() % 2 == 0) o.exchange_pieces = static_cast<uint32_t>(2 + random() % 4);
    o.repeat_exchanges = o.recompute && random() % 2 == 0;
    if (random() % 3 != 0) cut_at_random(o, *table, random);
    const core::mesh own = o.mesh;
    const bool few = own.ranks() * work.ranks() > 12;
    o.mesh = {{core::axis::pipeline, own.degree(core::axis::pipeline)},
              {core::axis::replicate, few ? 1 : own.degree(core::axis::replicate)},
              {core::axis::shard, few ? 1 : own.degree(core::axis::shard)},
              {core::axis::sequence, work.sequence},
              {core::axis::context, work.context},
              {core::axis::tensor, work.tensor}};
    if (make_layout(table, o)) return {std::move(table), std::move(o)};
  }
}

}  // namespace troupe::plan
