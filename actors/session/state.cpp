// Reads a session's state between steps (weights, moments, gradients), generates text, and exports.
#include <algorithm>
#include <cmath>

#include "actors/outputs.hpp"
#include "actors/session/parts.hpp"
#include "core/text.hpp"
#include "job/compression/mask_scores.hpp"
#include "kernels/base/random.hpp"
#include "models/families/hugging_face.hpp"
#include "models/table/teacher.hpp"

namespace troupe::actors {

namespace {

// Draws from softmax(logits / temperature) with a uniform number in [0, 1).
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

/// Returns an error for a parameter that does not exist, and for elements that it does not have.
core::result<void> check_elements(const core::model_table& t, uint32_t parameter, uint64_t first, uint64_t count) {
  if (parameter >= t.parameters.size())
    return core::fail(core::error_kind::bad_input, "parameter " + std::to_string(parameter) + ": wanted one of 0 to " +
                                                       std::to_string(t.parameters.size() - 1));
  const auto& p = t.parameters[parameter];
  if (first <= p.numel() && count <= p.numel() - first) return {};
  return core::fail(core::error_kind::bad_input, "parameter '" + p.name + "': wanted elements within its " +
                                                     std::to_string(p.numel()) + ", got " + std::to_string(count) +
                                                     " from element " + std::to_string(first) + " on");
}

}  // namespace

core::result<std::vector<int64_t>> session::generate(std::vector<int64_t> text, uint64_t tokens, double temperature) {
  auto& p = *parts_;
  if (p.modules.model != nullptr)
    return core::fail(core::error_kind::bad_input, "sample: a host's own model generates no text");
  if (text.empty())
    return core::fail(core::error_kind::bad_input, "sample.prompt: wanted at least one token, got none");
  for (int64_t t : text)
    if (t < 0 || t >= int64_t{p.plan.spec.vocabulary})
      return core::fail(core::error_kind::bad_input, "sample.prompt: token " + std::to_string(t) +
                                                         " is not in the vocabulary of " +
                                                         std::to_string(p.plan.spec.vocabulary));
  if (!std::isfinite(temperature) || temperature < 0)
    return core::fail(core::error_kind::bad_input, "sample.temperature: wanted a finite number of at least 0, got " +
                                                       core::number_text(temperature));
  return p.outlasting([&] { return p.generate(text, tokens, temperature); });
}

core::result<std::vector<int64_t>> session::parts::generate(std::vector<int64_t> text, uint64_t tokens,
                                                            double temperature) {
  for (uint64_t i = 0; i < tokens; ++i) {
    auto b = std::make_shared<data::batch>();
    const uint64_t seen = std::min<uint64_t>(text.size(), plan.sequence);
    b->rows = 1;
    b->columns = seen + 1;
    b->tokens.assign(text.end() - static_cast<long>(seen), text.end());
    b->tokens.push_back(0);  // placeholder for the target; generation computes no loss
    b->samples = {0};
    TROUPE_ASSIGN(auto did, run_and_tell(plan::plan_choice::generate, progress.steps, {.given = b}));
    const auto bits = kernels::philox({static_cast<uint32_t>(i), 0, 0, 0}, {static_cast<uint32_t>(plan.config->seed),
                                                                            0x73616D70U /* the sampler's stream */});
    const auto outputs = take_outputs(*did.ranks);
    text.push_back(draw(outputs.front().micros.front().values, temperature, double(bits[0]) / 4294967296.0));
  }
  return text;
}

core::result<void> session::read_parameter(uint32_t parameter, uint64_t first, std::span<float> out) const {
  TROUPE_TRY(check_elements(table(), parameter, first, out.size()));
  if (parts_->memory.offloaded != nullptr) return parts_->sound();
  // A frozen parameter has no master weight, only its own bytes, whole or in slices.
  const bool trains = table().parameters[parameter].trainable;
  return parts_->whole().read(parameter, trains ? plan::state_part::master : plan::state_part::copy,
                              {first, out.size()}, core::dtype::f32, reinterpret_cast<std::byte*>(out.data()));
}

core::result<void> session::read_moment(uint32_t parameter, int which, std::span<float> out) const {
  TROUPE_TRY(check_elements(table(), parameter, 0, out.size()));
  if (which < 0 || which >= static_cast<int>(plan::max_moments))
    return core::fail(core::error_kind::bad_input, "parameter '" + table().parameters[parameter].name +
                                                       "': wanted its moment 0 or 1, got " + std::to_string(which));
  if (parts_->memory.offloaded != nullptr) return parts_->sound();
  std::fill(out.begin(), out.end(), 0.0F);  // the optimizer does not keep this moment
  return parts_->whole().read(parameter, plan::moment_part(static_cast<uint32_t>(which)), {0, out.size()},
                              core::dtype::f32, reinterpret_cast<std::byte*>(out.data()));
}

core::result<void> session::read_gradient(uint32_t parameter, std::span<double> out) const {
  TROUPE_TRY(check_elements(table(), parameter, 0, out.size()));
  if (!table().parameters[parameter].trainable)
    return core::fail(core::error_kind::bad_input, "parameter '" + table().parameters[parameter].name +
                                                       "': wanted its gradient, but it is frozen and has none");
  if (parts_->memory.offloaded != nullptr) return parts_->sound();
  TROUPE_TRY(parts_->whole().read(parameter, plan::state_part::gradient, {0, out.size()}, core::dtype::f64,
                                  reinterpret_cast<std::byte*>(out.data())));
  for (double& g : out) g *= parts_->progress.gradient_factor.value_or(1);
  return {};
}

core::result<void> session::export_hugging_face(const std::string& folder, uint64_t max_shard_bytes) const {
  const auto read = [&](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
    return read_parameter(q, first, out);
  };
  if (parts_->modules.model != nullptr)
    return core::fail(core::error_kind::bad_input, "export: a host's own model has no form in Hugging Face's files");
  return parts_->outlasting([&] {
    return models::write_folder(folder, parts_->plan.spec, models::without_teacher(job::without_scores(table())),
                                core::dtype::f32, read, max_shard_bytes);
  });
}

}  // namespace troupe::actors
