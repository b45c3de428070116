#include "actors/run/own_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "actors/outputs.hpp"
#include "actors/run/training_run.hpp"
#include "core/math.hpp"
#include "core/text.hpp"
#include "core/token_order.hpp"
#include "data/batch.hpp"

namespace troupe::actors {
namespace {

/// Bytes of one token of a batch in a message: the token, its target and its weight.
constexpr uint64_t told_token_bytes = 2 * sizeof(int64_t) + sizeof(float);

tl::unexpected<core::error> refuse_call(const char* call, const std::string& why) {
  return core::fail(core::error_kind::bad_input, fmt::format("{}: {}", call, why));
}

/// Returns rows [first, first + rows) of a batch of samples of `sequence` tokens; rows beyond its end have token 0.
data::batch cut_rows(const token_batch& from, uint64_t first, uint64_t rows, uint64_t sequence) {
  data::batch out;
  out.rows = rows;
  out.columns = sequence + 1;
  out.tokens.resize(rows * out.columns);
  out.samples.resize(rows);
  const uint64_t there = std::min(rows, from.rows - std::min(from.rows, first));
  if (there > 0)
    std::copy_n(from.tokens.begin() + static_cast<std::ptrdiff_t>(first * out.columns), there * out.columns,
                out.tokens.begin());
  return out;
}

/// Sets the weights of a batch's tokens, whose losses are divided by `positions`, the number of tokens of the step.
/// `weights` has one for each token of the rows that are samples; further rows count nothing. `common`: the weight that
/// all tokens of the step have that count, unless `differ` is true.
void set_weights(data::batch& b, std::span<const double> weights, bool differ, double common, double positions) {
  const uint64_t columns = b.columns - 1, count = b.rows * columns;
  bool all_count = true;
  b.targets.resize(count);
  if (differ) b.weights.resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    const double weight = i < weights.size() ? weights[i] : 0;
    all_count &= weight != 0;
    b.targets[i] = weight == 0 ? core::no_target : b.tokens[i + i / columns + 1];
    if (differ) b.weights[i] = static_cast<float>(weight * positions);
  }
  if (all_count) b.targets.clear();
  b.loss_factor = differ ? 1 : common * positions;
}

}  // namespace

core::result<void> own_loop::check_run() const {
  TROUPE_TRY(run_.sound());
  if (run_.modules.model != nullptr)
    return refuse_call("forward",
                       "a host's own modules compute their loss themselves; step() trains them on their batches");
  const auto& plan = run_.term->plan;
  const auto& c = *plan.config;
  if (!run_.others->leads())
    return refuse_call("forward", "another process leads the job, and calls forward; call serve");
  if (plan.spec.family->is_encoder)
    return refuse_call("forward", fmt::format("a {} model finds masked tokens, and not the next ones of a batch",
                                              plan.spec.family->model_type));
  if (c.device != core::device_kind::cpu)
    return refuse_call("forward", "device: cuda has no weights of tokens yet; set device to cpu");
  if (plan.teaching) return refuse_call("forward", "cannot be combined with a teacher yet; remove model.teacher");
  if (c.on_spike.action != config::spike_action::none)
    return refuse_call("forward",
                       "cannot be combined with on_spike.action, which leaves out samples of the run's own data "
                       "and cannot repeat other steps; set it to none");
  if (!c.data.skip.empty())
    return refuse_call("forward",
                       "cannot be combined with data.skip, which names steps by the run's own data; remove it");
  return {};
}

core::result<void> own_loop::check(const token_batch& batch) const {
  const uint64_t sequence = run_.term->plan.sequence, vocabulary = run_.term->plan.spec.vocabulary;
  if (batch.rows == 0 || batch.rows > own_rows_max)
    return refuse_call("forward", fmt::format("wanted a batch of 1 to {} rows, got {}", own_rows_max, batch.rows));
  if (const uint64_t wanted = batch.rows * (sequence + 1); batch.tokens.size() != wanted)
    return refuse_call("forward",
                       fmt::format("wanted {} rows x {} tokens, which are the sequence and one more, {} in all, "
                                   "got {}",
                                   batch.rows, sequence + 1, wanted, batch.tokens.size()));
  if (const uint64_t wanted = batch.rows * sequence; !batch.counted.empty() && batch.counted.size() != wanted)
    return refuse_call("forward", fmt::format("wanted in `counted` nothing, or {} rows x {} inputs, {} in all, got {}",
                                              batch.rows, sequence, wanted, batch.counted.size()));
  for (uint64_t i = 0; i < batch.tokens.size(); ++i)
    if (const int64_t t = batch.tokens[i]; t < 0 || static_cast<uint64_t>(t) >= vocabulary)
      return refuse_call("forward", fmt::format("token {} at row {}, position {} is not in the vocabulary of {}", t,
                                                i / (sequence + 1), i % (sequence + 1), vocabulary));
  if (!batch.counted.empty() && std::ranges::count(batch.counted, 0) == std::ssize(batch.counted))
    return refuse_call("forward", "wanted a token that counts, got none: the mean over none has no value");
  if (passes_.size() >= own_passes_max)
    return core::fail(core::error_kind::limit, fmt::format("forward: wanted at most {} forward passes of a step, which "
                                                           "are kept; call step or forget",
                                                           own_passes_max));
  return {};
}

core::result<std::vector<float>> own_loop::walk(const token_batch& batch) const {
  const auto& shape = run_.term->loader.shape;
  const uint64_t sequence = run_.term->plan.sequence, together = shape.rows * shape.ranks;
  const uint64_t micros = core::div_up(batch.rows, together);
  uint64_t most = run_.term->plan.options[static_cast<size_t>(plan::plan_choice::evaluate)].accumulation;
  if (run_.others->are_there())
    most = std::clamp<uint64_t>(told_batch_bytes_max / (together * (sequence + 1) * told_token_bytes), 1, most);
  std::vector<float> out(micros * together * sequence);
  for (uint64_t done = 0; done < micros;) {
    run_wish wish{.micros = static_cast<uint32_t>(std::min(micros - done, most)),
                  .keeps = kept_outputs::log_probabilities};
    for (uint64_t first = done * together; first < (done + wish.micros) * together; first += shape.rows)
      wish.given.push_back(std::make_shared<const data::batch>(cut_rows(batch, first, shape.rows, sequence)));
    TROUPE_ASSIGN(auto did, run_.steps.run_and_tell(plan::plan_choice::evaluate, run_.progress.steps, wish));
    uint64_t found = 0;
    for (const auto& [position, all] : take_log_probabilities(*did.ranks))
      for (uint64_t m = 0; m < wish.micros; ++m) {
        const uint64_t first = ((done + m) * together + position * shape.rows) * sequence;
        if (m >= all.size() || all[m].values.size() != shape.rows * sequence || first >= out.size())
          return core::fail(core::error_kind::bug, "forward: wanted a probability for each token of a rank's rows");
        std::ranges::copy(all[m].values, out.begin() + static_cast<std::ptrdiff_t>(first));
        found += all[m].values.size();
      }
    if (found != wish.micros * together * sequence)
      return core::fail(core::error_kind::bug, fmt::format("forward: wanted probabilities of {} tokens, got {}",
                                                           wish.micros * together * sequence, found));
    done += wish.micros;
  }
  out.resize(batch.rows * sequence);
  return out;
}

core::result<forward_pass> own_loop::forward(const token_batch& batch) {
  TROUPE_TRY(check_run());
  TROUPE_TRY(check(batch));
  forward_pass out;
  TROUPE_ASSIGN(auto found, run_.outlast([&] { return walk(batch); }));
  out.log_probabilities = std::move(found);
  double sum = 0, counted = 0;
  for (size_t i = 0; i < out.log_probabilities.size(); ++i) {
    if (!batch.counted.empty() && batch.counted[i] == 0) continue;
    sum -= static_cast<double>(out.log_probabilities[i]);
    ++counted;
  }
  out.loss = sum / counted;
  out.number = ++last_number_;
  passes_.push_back({out.number, batch, {}});
  return out;
}

core::result<own_loop::kept_pass*> own_loop::find(uint64_t number) {
  TROUPE_TRY(run_.sound());
  const auto at = std::ranges::find(passes_, number, &kept_pass::number);
  if (at != passes_.end()) return &*at;
  const std::string there = passes_.empty()
                                ? std::string("there is none; call forward first")
                                : fmt::format("which are {} to {}", passes_.front().number, passes_.back().number);
  return refuse_call("backward",
                     fmt::format("wanted the number of a forward pass of the open step, got {}: {}", number, there));
}

core::result<void> own_loop::backward(uint64_t number, double factor) {
  TROUPE_ASSIGN(auto* const pass, find(number));
  if (!std::isfinite(factor))
    return refuse_call("backward", "wanted a finite factor of the loss, got " + core::number_text(factor));
  const auto& counted = pass->batch.counted;
  const uint64_t tokens = pass->batch.rows * run_.term->plan.sequence;
  const auto uncounted = static_cast<uint64_t>(std::ranges::count(counted, 0));
  const double each = factor / static_cast<double>(tokens - uncounted);
  pass->weights.resize(tokens);
  for (uint64_t i = 0; i < tokens; ++i)
    if (counted.empty() || counted[i] != 0) pass->weights[i] += each;
  return {};
}

core::result<void> own_loop::backward(uint64_t number, std::span<const float> gradients) {
  TROUPE_ASSIGN(auto* const pass, find(number));
  const auto& plan = run_.term->plan;
  const uint64_t tokens = pass->batch.rows * plan.sequence;
  if (gradients.size() != tokens)
    return refuse_call("backward", fmt::format("wanted {} rows x {} gradients, {} in all, one for each logarithm of a "
                                               "probability, got {}",
                                               pass->batch.rows, plan.sequence, tokens, gradients.size()));
  const auto& loss = plan.config->loss;
  if (loss.label_smoothing != 0 || loss.z_loss != 0)
    return refuse_call("backward",
                       "gradients of probabilities cannot be combined with loss.label_smoothing and "
                       "loss.z_loss, which change the loss of a token; set both to 0");
  const auto& spec = plan.spec;
  if (spec.embedding_dropout != 0 || spec.attention_dropout != 0 || spec.residual_dropout != 0 ||
      (spec.adapters && spec.adapters->dropout != 0))
    return refuse_call("backward",
                       "gradients of probabilities cannot be combined with dropout, because forward computes "
                       "without it and the step with it; set every dropout of the model to 0");
  for (uint64_t i = 0; i < tokens; ++i)
    if (!std::isfinite(gradients[i]))
      return refuse_call("backward", fmt::format("wanted finite gradients, got {} at row {}, position {}",
                                                 core::number_text(static_cast<double>(gradients[i])),
                                                 i / plan.sequence, i % plan.sequence));
  pass->weights.resize(tokens);
  for (uint64_t i = 0; i < tokens; ++i) pass->weights[i] -= static_cast<double>(gradients[i]);
  return {};
}

bool own_loop::has_backwards() const {
  return std::ranges::any_of(passes_, [](const kept_pass& x) { return !x.weights.empty(); });
}

core::result<own_step> own_loop::next_step() const {
  const auto& shape = run_.term->loader.shape;
  const auto& c = *run_.term->plan.config;
  const uint64_t sequence = run_.term->plan.sequence, together = shape.rows * shape.ranks;
  own_step out;
  uint64_t micros = 0;
  std::optional<double> common;
  bool differ = false;
  double largest = 0;
  for (const kept_pass& pass : passes_) {
    if (pass.weights.empty()) continue;
    micros += core::div_up(pass.batch.rows, together);
    out.samples += pass.batch.rows;
    for (const double weight : pass.weights) {
      if (weight == 0) continue;
      ++out.counted;
      differ |= common.value_or(weight) != weight;
      common = weight;
      largest = std::max(largest, std::abs(weight));
    }
  }
  const uint64_t most = c.gradient_accumulation_steps;
  const std::string got = fmt::format("got backwards of {} (of {} samples each)", micros, together);
  if (c.managed_gradient_accumulation && micros != most)
    return refuse_call("step", fmt::format("wanted {} micro-batches, as gradient_accumulation_steps says, {}; set "
                                           "managed_gradient_accumulation: false to decide their number in each step",
                                           most, got));
  if (micros > most)
    return core::fail(core::error_kind::limit,
                      fmt::format("step: wanted at most {} micro-batches, as gradient_accumulation_steps says, {}; "
                                  "raise the key, or call forget",
                                  most, got));
  const uint64_t tokens = micros * together * sequence;
  const auto positions = static_cast<double>(tokens);
  if (largest * positions > static_cast<double>(std::numeric_limits<float>::max()))
    return refuse_call("step", fmt::format("wanted weights of tokens that fp32 can hold, got {} x {} tokens",
                                           core::number_text(largest), tokens));
  if (run_.others->are_there() && tokens * told_token_bytes > told_batch_bytes_max)
    return core::fail(core::error_kind::limit,
                      fmt::format("step: wanted at most {} tokens of a host program's batches, which processes send to "
                                  "each other, got {}",
                                  told_batch_bytes_max / told_token_bytes, tokens));
  const uint64_t first_sample = shape.samples_before(run_.progress.steps);
  uint64_t rows = 0;  // rows of the step so far, those that fill up a micro-batch included
  for (const kept_pass& pass : passes_) {
    if (pass.weights.empty()) continue;
    const uint64_t end = core::round_up(pass.batch.rows, together);
    for (uint64_t first = 0; first < end; first += shape.rows) {
      auto b = std::make_shared<data::batch>(cut_rows(pass.batch, first, shape.rows, sequence));
      const std::span<const double> weights(pass.weights);
      const uint64_t begin = std::min<uint64_t>(weights.size(), first * sequence);
      set_weights(*b, weights.subspan(begin, std::min<uint64_t>(weights.size() - begin, shape.rows * sequence)), differ,
                  common.value_or(0), positions);
      for (uint64_t r = 0; r < shape.rows; ++r)
        b->samples[r] = shape.skipped.position_of(first_sample + rows + first + r);
      b->by_token = core::order_of_inputs(b->tokens, sequence);
      b->step = run_.progress.steps;
      b->micro = static_cast<uint32_t>((rows + first) / together);
      out.given.push_back(std::move(b));
    }
    rows += end;
  }
  out.micros = static_cast<uint32_t>(micros);
  return out;
}

}  // namespace troupe::actors
