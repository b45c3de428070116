// Evaluates: each run computes as many micro-batches as the plan takes together. Owns that each window of the
// validation text counts once, for any micro-batch, number of ranks and number of micro-batches per run.
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

/// Returns the share of a whole micro-batch's windows that a rank has: [global micro-batch, position among the ranks
/// that take different samples].
using window_share = std::function<double(uint64_t micro, uint32_t position)>;

window_share shares_of(const loader_setup& loader) {
  if (loader.corpus == nullptr) return [](uint64_t, uint32_t) { return 1.0; };  // a host's own batches
  return [&loader](uint64_t micro, uint32_t position) {
    const auto& shape = loader.shape;
    return double(data::validation_rows(*loader.corpus, shape.rows, micro * shape.ranks + position)) /
           double(shape.rows);
  };
}

/// Sum of the losses of a global micro-batch's windows, and the number of these windows in whole micro-batches of one
/// rank.
struct weighted_loss {
  double sum = 0, weight = 0;
};

/// Returns the loss of the `m`-th micro-batch of a run, which is number `micro` of the evaluation.
weighted_loss loss_of(const rank_report& ran, uint32_t m, uint64_t micro, const window_share& share) {
  const plan::job_layout& l = *ran.spans.plan->layout;
  const uint32_t all = l.options.data(), in_columns = l.options.sequence_ranks();
  weighted_loss out;
  for (uint32_t r = 0; r < all; ++r) {
    const double weight = share(micro, r / in_columns);
    if (weight == 0) continue;
    out.sum += weight * ran.losses[uint64_t{m} * all + r];
    out.weight += weight;
  }
  return out;
}

/// Passes the outputs of one run, whose first batch is `first`, to the host batch by batch, and releases them.
void hand_over(rank_reports& ranks, uint64_t first, uint32_t micros, const evaluation_request& request,
               const window_share& share) {
  const auto of = take_outputs(ranks);
  for (uint32_t m = 0; m < micros; ++m)
    for (const auto& [data, all] : of)
      if (share(first + m, data) > 0) request.on_output({first + m, data, all[m].shape, all[m].values});
}

/// Returns an error for outputs that the last unit does not have; `names` are those of a host's model, empty for a
/// family of Troupe.
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
  TROUPE_TRY(check(request, p.modules.outputs));
  return p.outlasting([&]() -> core::result<evaluation_report> {
    // Computed for the current degrees, which a loss of processes changes.
    TROUPE_ASSIGN(const auto n, p.num_evaluations(request.batches));
    return p.evaluate(request, n);
  });
}

core::result<evaluation_report> session::parts::evaluate(const evaluation_request& request, uint64_t n) {
  const uint64_t together = plan.options[static_cast<size_t>(plan::plan_choice::evaluate)].accumulation;
  const bool keeps = static_cast<bool>(request.on_output);
  uint64_t at_once = keeps ? 1 : together;  // until the size of an output is known
  const auto share = shares_of(data.loader);
  evaluation_report out;
  double ranks_with_windows = 0;
  for (uint64_t done = 0; done < n;) {
    const auto micros = static_cast<uint32_t>(std::min(n - done, at_once));
    TROUPE_ASSIGN(auto did, run_and_tell(plan::plan_choice::evaluate, done,
                                         {.micros = micros,
                                          .keeps_logits = keeps,
                                          .output = request.output,
                                          .computes_loss = request.compute_loss}));
    rank_reports& ranks = *did.ranks;
    for (uint32_t m = 0; m < (request.compute_loss ? micros : 0); ++m) {
      const weighted_loss of = loss_of(ranks.front(), m, done + m, share);
      out.losses.push_back(of.sum / of.weight);
      out.loss += of.sum;
      ranks_with_windows += of.weight;
    }
    done += micros;
    if (!keeps) continue;
    uint64_t bytes = 0;
    for (const auto& r : ranks) bytes += output_bytes(r);
    at_once = std::clamp<uint64_t>(request.output_bytes / std::max<uint64_t>(1, bytes / micros), 1, together);
    hand_over(ranks, done - micros, micros, request, share);
  }
  if (!request.compute_loss) return out;
  out.loss /= ranks_with_windows;
  record_loss(out.loss);
  if (host.hooks.on_evaluation) host.hooks.on_evaluation(progress.steps, out.loss);
  return out;
}

core::result<double> session::evaluate(uint64_t batches) {
  TROUPE_ASSIGN(auto did, evaluate(evaluation_request{.batches = batches}));
  return did.loss;
}

}  // namespace troupe::actors
