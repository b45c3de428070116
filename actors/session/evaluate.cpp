// Evaluation: runs of as many micro-batches as the plan takes together, whose losses are added one after the other, so
// that the mean does not depend on how many that are.
#include <algorithm>

#include "actors/session/parts.hpp"

namespace troupe::actors {
namespace {

uint64_t output_bytes(const step_context& rank) {
  uint64_t bytes = 0;
  for (const auto& x : rank.logits) bytes += x.values.size() * sizeof(float);
  return bytes;
}

/// Outputs of one run, handed over batch by batch and gone afterwards.
void hand_over(const std::vector<std::shared_ptr<step_context>>& ranks, const evaluation_request& request) {
  std::vector<std::pair<uint32_t, std::vector<model_output>>> of;  // data coordinate; of the ranks that have the head
  for (const auto& c : ranks)
    if (auto all = std::exchange(c->logits, {}); !all.empty())
      of.emplace_back(c->plan().layout->data_at(c->plan().rank), std::move(all));
  std::ranges::sort(of, {}, [](const auto& x) { return x.first; });
  const auto& first = *ranks.front();
  for (uint32_t m = 0; m < first.micros(); ++m)
    for (const auto& [data, all] : of) request.on_output({first.order.step + m, data, all[m].shape, all[m].values});
}

}  // namespace

core::result<evaluation_report> session::evaluate(const evaluation_request& request) {
  auto& p = *parts_;
  const auto n = p.num_evaluations(request.batches);
  if (!n) return core::fail(n.error());
  const uint64_t together = p.plan.options[static_cast<size_t>(plan::plan_choice::evaluate)].accumulation;
  const bool keeps = static_cast<bool>(request.on_output);
  uint64_t at_once = keeps ? 1 : together;  // until it is known what an output takes
  evaluation_report out;
  while (out.losses.size() < *n) {
    const auto micros = static_cast<uint32_t>(std::min(*n - out.losses.size(), at_once));
    auto did =
        p.run_and_tell(plan::plan_choice::evaluate, out.losses.size(), {.micros = micros, .keeps_logits = keeps});
    if (!did) return core::fail(did.error());
    const auto& ranks = *did->contexts;
    for (uint32_t m = 0; m < micros; ++m)
      out.losses.push_back(mean_loss(ranks.front()->plan(), ranks.front()->votes, m));
    for (uint32_t m = micros; m > 0; --m) out.loss += out.losses[out.losses.size() - m];
    if (!keeps) continue;
    uint64_t bytes = 0;
    for (const auto& c : ranks) bytes += output_bytes(*c);
    at_once = std::clamp<uint64_t>(request.output_bytes / std::max<uint64_t>(1, bytes / micros), 1, together);
    hand_over(ranks, request);
  }
  out.loss /= double(*n);
  p.record_loss(out.loss);
  if (p.host.hooks.on_evaluation) p.host.hooks.on_evaluation(p.progress.steps, out.loss);
  return out;
}

core::result<double> session::evaluate(uint64_t batches) {
  auto did = evaluate(evaluation_request{.batches = batches});
  if (!did) return core::fail(did.error());
  return did->loss;
}

}  // namespace troupe::actors
