#include "actors/run/inference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "actors/modules/own_model.hpp"
#include "actors/outputs.hpp"
#include "actors/run/training_run.hpp"
#include "core/math.hpp"
#include "core/text.hpp"
#include "kernels/base/random.hpp"

namespace troupe::actors {
namespace {

uint64_t output_bytes(const rank_report& rank) {
  uint64_t bytes = 0;
  for (const auto& x : rank.outputs) bytes += x.values.size() * sizeof(float);
  return bytes;
}

/// Function that returns which part, from 0 to 1, of a full micro-batch's windows a rank evaluates. `micro`: number of
/// the global micro-batch; `position`: the rank's position among the ranks that compute different samples.
using window_share = std::function<double(uint64_t micro, uint32_t position)>;

window_share shares_of(const loader_setup& loader, size_t set) {
  // a host program's own batches have no corpus; all of them count equally
  if (loader.corpus == nullptr) return [](uint64_t, uint32_t) { return 1.0; };
  return [&loader, set](uint64_t micro, uint32_t position) {
    const auto& shape = loader.shape;
    return double(data::validation_rows(*loader.corpus, shape.rows, micro * shape.ranks + position, set)) /
           double(shape.rows);
  };
}

/// Returns by how much the loss of a rank's micro-batch counts in the mean. Errors: those of reading the text.
using loss_weight = std::function<core::result<double>(uint64_t micro, uint32_t position)>;

loss_weight weights_of(const loader_setup& loader, size_t set) {
  if (loader.corpus == nullptr) return [](uint64_t, uint32_t) { return 1.0; };
  return [&loader, set](uint64_t micro, uint32_t position) {
    return data::validation_weight(*loader.corpus, loader.shape.rows, micro * loader.shape.ranks + position, set);
  };
}

/// Sum of the mean losses of the ranks' micro-batches, each weighted by its part of a full micro-batch or by its number
/// of targets, and the sum of these weights.
struct weighted_loss {
  double sum = 0, weight = 0;
};

/// Returns the losses of the `m`-th micro-batch of a run, which is number `micro` of the evaluation, weighted by
/// `weight_of`.
core::result<weighted_loss> loss_of(const rank_report& ran, uint32_t m, uint64_t micro, const loss_weight& weight_of) {
  const plan::job_layout& l = *ran.spans.plan->layout;
  const uint32_t all = l.options.data(), in_columns = l.options.sequence_ranks();
  weighted_loss out;
  for (uint32_t r = 0; r < all; ++r) {
    TROUPE_ASSIGN(const double weight, weight_of(micro, r / in_columns));
    if (weight == 0) continue;
    out.sum += weight * ran.losses[uint64_t{m} * all + r];
    out.weight += weight;
  }
  return out;
}

/// Moves the outputs out of the reports of a run whose first micro-batch is number `first`, and passes them to
/// on_output one micro-batch after the other.
void hand_over(rank_reports& ranks, uint64_t first, uint32_t micros, const evaluation_request& request,
               const window_share& share) {
  const auto of = take_outputs(ranks);
  for (uint32_t m = 0; m < micros; ++m)
    for (const auto& [data, all] : of)
      if (share(first + m, data) > 0) request.on_output({first + m, data, all[m].shape, all[m].values});
}

/// Returns an error for a request of an output that the model's last unit does not have. `names`: outputs of a
/// host program's model; empty for a model of Troupe.
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
                    ? "wanted no name in evaluation_request::output, because the model outputs only its "
                      "logits, got '" +
                          core::shown(request.output) + "'"
                    : "wanted in evaluation_request::output one of the values of the last unit, " + all + ", got " +
                          (request.output.empty() ? "no name" : "'" + core::shown(request.output) + "'"));
}

/// Draws a token from softmax(logits / temperature) by `uniform`, a random number in [0, 1); temperature 0: returns the
/// likeliest.
int64_t draw(const std::vector<float>& logits, double temperature, double uniform) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return best - logits.begin();
  std::vector<double> weight(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    total += weight[i] = std::exp((double(logits[i]) - double(*best)) / temperature);
  double left = uniform * total;
  for (size_t i = 0; i < weight.size(); ++i)
    if ((left -= weight[i]) < 0) return static_cast<int64_t>(i);
  return static_cast<int64_t>(weight.size()) - 1;
}

/// The micro-batches of an evaluation: `count` of a validation set, which are numbered from `first` on over all sets.
struct evaluated_batches {
  size_t set = 0;
  uint64_t first = 0, count = 0;
};

/// Returns the index of the validation set with this name; of the first one for an empty name.
core::result<size_t> set_named(const data::corpus& corpus, const std::string& name) {
  if (corpus.validation_sets() == 0)
    return core::refused("evaluation: there is no validation part; set data.validation_fraction or data.validation");
  if (name.empty()) return size_t{0};
  std::vector<std::string> names;
  for (size_t set = 0; set < corpus.validation_sets(); ++set) {
    if (corpus.validation_name(set) == name) return set;
    if (!corpus.validation_name(set).empty()) names.push_back(corpus.validation_name(set));
  }
  return core::refused(fmt::format("evaluation: wanted one of the validation sets of data.validation{}{}, got '{}'",
                                   names.empty() ? ", of which there is none" : ", ", fmt::join(names, ", "),
                                   core::shown(name)));
}

/// Returns the micro-batches that `request` evaluates.
core::result<evaluated_batches> batches_of(const training_run& run, const evaluation_request& request) {
  if (run.modules.model != nullptr) {
    if (!request.set.empty())
      return core::refused("evaluation: the host's own model has no validation sets with names, got '" +
                           core::shown(request.set) + "'");
    if (request.batches > 0 && run.modules.model->evaluation) return evaluated_batches{0, 0, request.batches};
    return core::fail(core::error_kind::bad_input,
                      run.modules.model->evaluation
                          ? "evaluation: wanted a number of batches of the host's own model, got 0"
                          : "evaluation: the host's own model has no evaluation batches");
  }
  const auto& corpus = *run.data.corpus();
  const auto& shape = run.term->loader.shape;
  TROUPE_ASSIGN(const size_t set, set_named(corpus, request.set));
  const uint64_t all = data::evaluations_of(corpus, shape, set);
  return evaluated_batches{set, data::first_evaluation(corpus, shape, set),
                           request.batches > 0 ? std::min(request.batches, all) : all};
}

/// Proves the saves of the current weights if `loss`, which was computed with these, is finite.
void prove_saves(training_run& run, double loss) {
  if (!std::isfinite(loss)) return;
  run.saves.prove(run.progress.steps);
  run.host.deliver();
}

/// Evaluates the global micro-batches `which`. Fails if processes are lost meanwhile; evaluate() then repeats the call
/// with the remaining ranks.
core::result<evaluation_report> evaluate_once(training_run& run, const evaluation_request& request,
                                              const evaluated_batches& which) {
  const uint64_t n = which.count;
  const uint64_t together = run.term->plan.options[static_cast<size_t>(plan::plan_choice::evaluate)].accumulation;
  const bool keeps = static_cast<bool>(request.on_output);
  // micro-batches per run; 1 until the size of an output is known
  uint64_t at_once = keeps ? 1 : together;
  const auto share = shares_of(run.term->loader, which.set);
  const auto weight_of = weights_of(run.term->loader, which.set);
  evaluation_report out;
  double ranks_with_windows = 0;
  for (uint64_t done = 0; done < n;) {
    if (request.go_on && !request.go_on()) {
      out.ended_early = true;
      out.loss = 0;
      return out;
    }
    const auto micros = static_cast<uint32_t>(std::min(n - done, at_once));
    const run_wish wish{.micros = micros,
                        .keeps = keeps ? kept_outputs::scores : kept_outputs::none,
                        .output = request.output,
                        .computes_loss = request.compute_loss};
    TROUPE_ASSIGN(auto did, run.steps.run_and_tell(plan::plan_choice::evaluate, which.first + done, wish));
    rank_reports& ranks = *did.ranks;
    for (uint32_t m = 0; m < (request.compute_loss ? micros : 0); ++m) {
      TROUPE_ASSIGN(const weighted_loss of, loss_of(ranks.front(), m, done + m, weight_of));
      // windows of special tokens alone have no targets, so there is no mean
      out.losses.push_back(of.weight > 0 ? of.sum / of.weight : std::numeric_limits<double>::quiet_NaN());
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
  if (ranks_with_windows == 0) {
    const auto& corpus = run.data.corpus();
    const std::string set = corpus == nullptr ? std::string() : corpus->validation_name(which.set);
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("evaluation: wanted a token that the model has to find, got none in {} batch{} of the "
                    "validation {}: raise data.masking.probability, or evaluate more windows (evaluation.batches{})",
                    n, n == 1 ? "" : "es", set.empty() ? "part" : "set " + set,
                    set.empty() ? ", data.validation_fraction" : ""));
  }
  out.loss /= ranks_with_windows;
  return out;
}

/// Evaluates with the averages of the weights in place of the weights, which are back in place afterwards. Errors: also
/// those of exchange_averages().
core::result<evaluation_report> evaluate_averages(training_run& run, const evaluation_request& request,
                                                  const evaluated_batches& which) {
  TROUPE_TRY(exchange_averages(run));
  auto did = evaluate_once(run, request, which);
  const auto back = exchange_averages(run);
  if (did && !back) return core::fail(back.error());
  return did;
}

/// Records the loss of an evaluation of a validation set, and passes that of the first set to the host program. A
/// finite loss of the weights proves their saves; one of their averages does not.
void tell_loss(training_run& run, const evaluation_report& did, size_t set, bool is_averaged) {
  const auto& corpus = run.data.corpus();
  run.recorder.record_loss(did.loss, corpus == nullptr ? std::string() : corpus->validation_name(set), set == 0);
  if (!is_averaged) prove_saves(run, did.loss);
  if (set == 0 && run.host.hooks.on_evaluation) run.host.hooks.on_evaluation(run.progress.steps, did.loss);
}

/// Generates text. Fails if processes are lost meanwhile; generate() then repeats the call with the remaining ranks.
core::result<std::vector<int64_t>> generate_once(training_run& run, std::vector<int64_t> text, uint64_t tokens,
                                                 double temperature, const std::vector<int64_t>& ends) {
  const auto& plan = run.term->plan;
  for (uint64_t i = 0; i < tokens; ++i) {
    auto b = std::make_shared<data::batch>();
    const uint64_t seen = std::min<uint64_t>(text.size(), plan.sequence);
    b->rows = 1;
    b->columns = seen + 1;
    b->tokens.assign(text.end() - static_cast<long>(seen), text.end());
    b->tokens.push_back(0);  // placeholder for the target; generation computes no loss
    b->samples = {0};
    TROUPE_ASSIGN(auto did, run.steps.run_and_tell(plan::plan_choice::generate, run.progress.steps, {.given = {b}}));
    const auto bits = kernels::philox({static_cast<uint32_t>(i), 0, 0, 0}, {static_cast<uint32_t>(plan.config->seed),
                                                                            0x73616D70U /* the sampler's stream */});
    const auto outputs = take_outputs(*did.ranks);
    text.push_back(draw(outputs.front().micros.front().values, temperature, double(bits[0]) / 4294967296.0));
    if (std::ranges::find(ends, text.back()) != ends.end()) break;
  }
  return text;
}

}  // namespace

core::result<evaluation_report> evaluate(training_run& run, const evaluation_request& request) {
  TROUPE_TRY(check(request, run.modules.outputs));
  const bool is_averaged = request.averaged.value_or(run.term->plan.config->ema.evaluate);
  return run.outlast([&]() -> core::result<evaluation_report> {
    // The number depends on the number of data ranks, which a loss of processes changes.
    TROUPE_ASSIGN(const auto which, batches_of(run, request));
    auto did = is_averaged ? evaluate_averages(run, request, which) : evaluate_once(run, request, which);
    if (did && request.compute_loss && !did->ended_early) tell_loss(run, *did, which.set, is_averaged);
    return did;
  });
}

core::result<double> next_loss(training_run& run) {
  TROUPE_TRY(run.sound());
  if (run.modules.model != nullptr)
    return core::fail(core::error_kind::bad_input, "next_loss: a host's own model reads no text");
  return run.outlast([&]() -> core::result<double> {
    const auto& shape = run.term->loader.shape;
    auto next =
        data::make_rows(*run.data.corpus(), shape.samples_before(run.progress.steps), shape.rows, shape.skipped);
    if (next.failure) return core::fail(*next.failure);
    if (next.loss_factor == 0)
      return core::fail(core::error_kind::bad_input,
                        "next_loss: wanted a token that the model has to find in the next micro-batch, got none: raise "
                        "data.masking.probability or train_micro_batch_size_per_gpu");
    next.document_start.clear();  // the other processes receive only the tokens
    next.by_column = {};
    const run_wish wish{.given = {std::make_shared<const data::batch>(std::move(next))}, .micros = 1};
    TROUPE_ASSIGN(auto did, run.steps.run_and_tell(plan::plan_choice::evaluate, run.progress.steps, wish));
    const auto& losses = did.ranks->front().losses;  // one for each data rank
    const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / double(losses.size());
    prove_saves(run, mean);
    return mean;
  });
}

core::result<std::vector<int64_t>> generate(training_run& run, std::vector<int64_t> text, uint64_t tokens,
                                            double temperature, const std::vector<int64_t>& ends) {
  if (run.modules.model != nullptr)
    return core::fail(core::error_kind::bad_input, "sample: a host's own model generates no text");
  if (const auto* family = run.term->plan.spec.family; family->is_encoder)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("sample: a {} model finds masked tokens and generates no text", family->model_type));
  if (text.empty())
    return core::fail(core::error_kind::bad_input, "sample.prompt: wanted at least one token, got none");
  for (int64_t t : text)
    if (t < 0 || t >= int64_t{run.term->plan.spec.vocabulary})
      return core::fail(
          core::error_kind::bad_input,
          fmt::format("sample.prompt: token {} is not in the vocabulary of {}", t, run.term->plan.spec.vocabulary));
  if (!std::isfinite(temperature) || temperature < 0)
    return core::fail(core::error_kind::bad_input, "sample.temperature: wanted a finite number of at least 0, got " +
                                                       core::number_text(temperature));
  return run.outlast([&] { return generate_once(run, text, tokens, temperature, ends); });
}

}  // namespace troupe::actors
