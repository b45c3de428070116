// Evaluation: runs of as many micro-batches as the plan takes together, whose losses are added one after the other, so
// that the mean does not depend on how many that are.
#include <algorithm>

#include "actors/outputs.hpp"
#include "actors/session/parts.hpp"
#include "core/text.hpp"

namespace troupe::actors {
namespace {

uint64_t output_bytes(const rank_report& rank) {
  uint64_t bytes = 0;
  for (const auto& x : rank.outputs) bytes += x.values.size() * sizeof(float);
  return bytes;
}

/// Outputs of one run, whose first batch is `first`, handed over batch by batch and gone afterwards.
void hand_over(rank_reports& ranks, uint64_t first, uint32_t micros, const evaluation_request& request) {
  const auto of = take_outputs(ranks);
  for (uint32_t m = 0; m < micros; ++m)
    for (const auto& [data, all] : of) request.on_output({first + m, data, all[m].shape, all[m].values});
}

/// Refuses what the last unit does not put out; `names` are those of a host's, empty for a family of ours.
core::result<void> check(const evaluation_request& request, const std::vector<std::string>& names) {
  const auto refuse = [](const std::string& why) {
    return core::fail(core::error_kind::bad_input, "evaluation: " + why);
  };
  if (!request.on_output && !request.compute_loss)
    return refuse("wanted compute_loss or on_output in evaluation_request, got neither");
  if (!request.on_output || (request.output.empty() && names.size() <= 1)) return {};
  if (std::ranges::find(names, request.output) != names.end()) return {};
  std::string all;
  for (const auto& name : names) all.append(all.empty() ? "'" : ", '").append(name).append("'");
  return refuse(names.empty()
                    ? "wanted no name in evaluation_request::output, since the model puts out its logits "
                      "alone, got '" +
                          core::shown(request.output) + "'"
                    : "wanted in evaluation_request::output one of the values of the last unit, " + all + ", got " +
                          (request.output.empty() ? "no name" : "'" + core::shown(request.output) + "'"));
}

}  // namespace

core::result<evaluation_report> session::evaluate(const evaluation_request& request) {
  auto& p = *parts_;
  if (auto ok = check(request, p.modules.outputs); !ok) return core::fail(ok.error());
  const auto n = p.num_evaluations(request.batches);
  if (!n) return core::fail(n.error());
  return p.outlasting([&] { return p.evaluate(request, *n); });
}

core::result<evaluation_report> session::parts::evaluate(const evaluation_request& request, uint64_t n) {
  const uint64_t together = plan.options[static_cast<size_t>(plan::plan_choice::evaluate)].accumulation;
  const bool keeps = static_cast<bool>(request.on_output);
  uint64_t at_once = keeps ? 1 : together;  // until it is known what an output takes
  evaluation_report out;
  for (uint64_t done = 0; done < n;) {
    const auto micros = static_cast<uint32_t>(std::min(n - done, at_once));
    auto did = run_and_tell(
        plan::plan_choice::evaluate, done,
        {.micros = micros, .keeps_logits = keeps, .output = request.output, .computes_loss = request.compute_loss});
    if (!did) return core::fail(did.error());
    done += micros;
    rank_reports& ranks = *did->ranks;
    if (request.compute_loss)
      out.losses.insert(out.losses.end(), ranks.front().losses.begin(), ranks.front().losses.end());
    for (uint32_t m = request.compute_loss ? micros : 0; m > 0; --m) out.loss += out.losses[out.losses.size() - m];
    if (!keeps) continue;
    uint64_t bytes = 0;
    for (const auto& r : ranks) bytes += output_bytes(r);
    at_once = std::clamp<uint64_t>(request.output_bytes / std::max<uint64_t>(1, bytes / micros), 1, together);
    hand_over(ranks, done - micros, micros, request);
  }
  if (!request.compute_loss) return out;
  out.loss /= double(n);
  record_loss(out.loss);
  if (host.hooks.on_evaluation) host.hooks.on_evaluation(progress.steps, out.loss);
  return out;
}

core::result<double> session::evaluate(uint64_t batches) {
  auto did = evaluate(evaluation_request{.batches = batches});
  if (!did) return core::fail(did.error());
  return did->loss;
}

}  // namespace troupe::actors
