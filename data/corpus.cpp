// Combines the orders of the samples of all sources of a run into one order.
#include "data/corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <span>
#include <utility>

#include "core/math.hpp"

namespace troupe::data {
namespace {

/// Returns the seed of the shuffle of source number `source`. The first source has the run's seed, so that its order
/// stays the same when a second source is added.
uint64_t seed_of(uint64_t seed, size_t source) { return source == 0 ? seed : seed ^ core::mix64(source); }

/// Divides a source's tokens into those for training and those held out. Packed rows are divided already, between two
/// rows; the target of a part's last input belongs to the next row, and does not count.
core::result<token_split> parts_of_stream(const token_stream& stream, const corpus_options& options) {
  const auto& rows = stream.packed();
  if (!rows) return split_tokens(stream.size(), options.validation_fraction, options.sequence);
  const uint64_t cut = rows->training_rows * rows->row_tokens;
  const uint64_t end = cut + rows->validation_rows * rows->row_tokens;
  if (rows->row_tokens != options.sequence || rows->training_rows == 0 || end + 1 != stream.size())
    return core::fail(
        core::error_kind::mismatch,
        fmt::format("wanted packed rows of {} tokens, got {} and {} rows of {} in {} tokens", options.sequence,
                    rows->training_rows, rows->validation_rows, rows->row_tokens, stream.size()));
  return token_split{{0, cut + 1}, {rows->validation_rows > 0 ? cut : end + 1, end + 1}};
}

}  // namespace

core::result<corpus> corpus::make(std::vector<weighted_stream> sources, const corpus_options& options) {
  std::vector<double> weights;
  for (const auto& s : sources) weights.push_back(s.weight);
  TROUPE_ASSIGN(const auto shares, shares_of(weights));
  std::vector<part> parts;
  std::optional<token_maker> maker;
  for (auto& s : sources) {
    if (const auto& other = s.stream->maker()) {
      if (maker) TROUPE_TRY(check_same_tokenizer(*maker, *other));
      maker = other;
    }
    const auto split = parts_of_stream(*s.stream, options);
    if (!split) return core::fail(split.error().in(s.name));
    parts.push_back({std::move(s.stream), split->validation,
                     sample_order(split->train, options.sequence, seed_of(options.seed, parts.size()), options.shuffle),
                     std::move(s.name)});
  }
  return corpus(std::move(parts), interleave(shares), options);
}

corpus::corpus(std::vector<part> parts, interleave mix, const corpus_options& options)
    : parts_(std::move(parts)),
      mix_(std::move(mix)),
      held_out_mix_(std::vector<uint64_t>{1}),
      sequence_(options.sequence),
      shuffle_(options.shuffle),
      document_mask_(options.document_mask),
      masking_(options.masking),
      refused_input_(options.refused_input) {
  std::vector<uint64_t> windows;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const uint64_t n = parts_[i].held_out.samples(sequence_);
    if (n == 0) continue;
    windows.push_back(n);
    held_out_parts_.push_back(i);
    validation_windows_ += n;
  }
  if (windows.size() > 1) held_out_mix_ = interleave(windows);
  selects_targets_ = masking_ != nullptr || std::any_of(parts_.begin(), parts_.end(),
                                                        [](const part& p) { return p.stream->selects_targets(); });
}

corpus::window corpus::training(uint64_t position) const {
  const auto place = mix_.at(position);
  const auto& p = parts_[place.source];
  return {p.stream.get(), p.order.first_token_at(place.index), p.name};
}

corpus::window corpus::validation(uint64_t index) const {
  assert(index < validation_windows_);
  const auto place = held_out_mix_.at(index);
  const auto& p = parts_[held_out_parts_[place.source]];
  return {p.stream.get(), p.held_out.begin + place.index * sequence_, p.name};
}

uint64_t corpus::validation_tokens() const {
  uint64_t n = 0;
  for (const auto& p : parts_) n += p.held_out.size();
  return n;
}

core::result<std::shared_ptr<const corpus::step_samples>> corpus::read_step(
    const std::vector<uint64_t>& positions) const {
  const std::lock_guard held(latest_->guard);
  if (latest_->samples != nullptr && latest_->samples->positions == positions) return latest_->samples;
  const uint64_t columns = sequence_ + 1;
  auto out = std::make_shared<step_samples>();
  out->positions = positions;
  out->tokens.resize(positions.size() * columns);
  for (size_t n = 0; n < positions.size(); ++n) {
    const auto tokens = std::span(out->tokens).subspan(n * columns, columns);
    const window from = training(positions[n]);
    TROUPE_TRY(from.stream->copy(from.first, tokens));
    out->targets += masking_ != nullptr ? masking_->count(data_part::training, positions[n], tokens.first(sequence_))
                                        : from.stream->counted(from.first + 1, sequence_);
  }
  latest_->samples = std::move(out);
  return latest_->samples;
}

core::result<uint64_t> corpus::validation_targets(uint64_t first, uint64_t count) const {
  std::vector<int64_t> inputs(sequence_);
  uint64_t out = 0;
  for (uint64_t w = first; w < first + count; ++w) {
    const window from = validation(w);
    if (masking_ == nullptr) {
      out += from.stream->counted(from.first + 1, sequence_);
      continue;
    }
    TROUPE_TRY(from.stream->copy(from.first, inputs));
    out += masking_->count(data_part::validation, w, inputs);
  }
  return out;
}

bool corpus::tokens_are_bytes() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const part& p) { return p.stream->tokens_are_bytes(); });
}

}  // namespace troupe::data
