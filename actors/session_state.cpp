// Reading a session's state between steps: weights, moments, gradients; generating text; exporting.
#include <algorithm>
#include <cmath>

#include "actors/session_parts.hpp"
#include "kernels/cast.hpp"
#include "kernels/random.hpp"
#include "models/hugging_face.hpp"

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

}  // namespace

core::result<std::vector<int64_t>> session::generate(std::vector<int64_t> text, uint64_t tokens, double temperature) {
  auto& p = *parts_;
  if (p.model != nullptr)
    return core::fail(core::error_kind::bad_input, "sample: a host's own model generates no text");
  if (text.empty())
    return core::fail(core::error_kind::bad_input, "sample.prompt: wanted at least one token, got none");
  for (int64_t t : text)
    if (t < 0 || t >= int64_t{p.plan.spec.vocabulary})
      return core::fail(core::error_kind::bad_input, "sample.prompt: token " + std::to_string(t) +
                                                         " is not in the vocabulary of " +
                                                         std::to_string(p.plan.spec.vocabulary));
  for (uint64_t i = 0; i < tokens; ++i) {
    auto b = std::make_shared<data::batch>();
    const uint64_t seen = std::min<uint64_t>(text.size(), p.plan.sequence);
    b->rows = 1;
    b->columns = seen + 1;
    b->tokens.assign(text.end() - static_cast<long>(seen), text.end());
    b->tokens.push_back(0);  // the target's place; generation computes no loss
    b->samples = {0};
    auto did = p.run(plan_choice::generate, p.steps, b);
    if (!did) return core::fail(did.error());
    const auto bits = kernels::philox({static_cast<uint32_t>(i), 0, 0, 0}, {static_cast<uint32_t>(p.plan.config->seed),
                                                                            0x73616D70U /* the sampler's stream */});
    text.push_back(draw(did->logits, temperature, double(bits[0]) / 4294967296.0));
  }
  return text;
}

namespace {

// Visits the owner's piece of every part of a parameter; at stage 0 rank 0 owns it whole.
template <class F>
void for_each_owned(const std::vector<std::shared_ptr<rank_memory>>& memory, uint32_t parameter, F visit) {
  for (const auto& m : memory) {
    for (const auto& group : m->plan().sub_groups)
      for (const auto& piece : group.pieces)
        if (piece.parameter == parameter) visit(*m, piece);
    if (m->plan().options.updates_all()) return;
  }
}

void to_fp32(const std::byte* from, core::dtype type, std::span<float> out) {
  kernels::cast(from, type, reinterpret_cast<std::byte*>(out.data()), core::dtype::f32, out.size());
}

}  // namespace

namespace {

// A frozen parameter has no master weight: its own bytes, whole or in slices, are all there is.
void read_frozen(const std::vector<std::shared_ptr<rank_memory>>& memory, uint32_t q, uint64_t first,
                 std::span<float> out) {
  for (const auto& m : memory) {
    const auto& p = m->plan();
    const plan::slice held =
        p.options.stage == 3 ? p.partition.of(q, p.rank) : plan::slice{0, p.table->parameters[q].numel()};
    const uint64_t begin = std::max(first, held.first), end = std::min(first + out.size(), held.first + held.count);
    if (begin < end) to_fp32(m->parameter(q, begin), p.options.parameter, out.subspan(begin - first, end - begin));
    if (p.options.stage != 3) return;
  }
}

}  // namespace

void session::read_parameter(uint32_t parameter, uint64_t first, std::span<float> out) const {
  if (!parts_->plan.table->parameters[parameter].trainable) return read_frozen(parts_->memory, parameter, first, out);
  for_each_owned(parts_->memory, parameter, [&](const rank_memory& m, const plan::owned_piece& x) {
    const uint64_t begin = std::max(first, x.range.first);
    const uint64_t end = std::min(first + out.size(), x.range.first + x.range.count);
    if (begin >= end) return;
    const auto type = m.plan().options.master();
    to_fp32(m.master(x) + (begin - x.range.first) * core::size_of(type), type, out.subspan(begin - first, end - begin));
  });
}

void session::read_moment(uint32_t parameter, int which, std::span<float> out) const {
  for_each_owned(parts_->memory, parameter, [&](const rank_memory& m, const plan::owned_piece& x) {
    const auto into = out.subspan(x.range.first, x.range.count);
    if (const std::byte* moment = m.moment(x, static_cast<uint32_t>(which)); moment != nullptr)
      to_fp32(moment, m.plan().options.master(), into);
    else
      std::fill(into.begin(), into.end(), 0.0F);
  });
}

void session::read_gradient(uint32_t parameter, std::span<double> out) const {
  for_each_owned(parts_->memory, parameter, [&](const rank_memory& m, const plan::owned_piece& x) {
    kernels::cast(m.reduced_gradient(parameter, x.range.first), m.plan().options.accumulation_type,
                  reinterpret_cast<std::byte*>(out.data() + x.range.first), core::dtype::f64, x.range.count);
  });
  for (double& g : out) g *= parts_->last_factor;
}

core::result<void> session::export_hugging_face(const std::string& folder, uint64_t max_shard_bytes) const {
  const auto read = [&](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
    read_parameter(q, first, out);
    return {};
  };
  if (parts_->model != nullptr)
    return core::fail(core::error_kind::bad_input, "export: a host's own model has no form in Hugging Face's files");
  return models::write_folder(folder, parts_->plan.spec, *parts_->plan.table, core::dtype::f32, read, max_shard_bytes);
}

}  // namespace troupe::actors
