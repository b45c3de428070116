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

/// Returns the tokens of a text for validation, all of which belong to its set; of packed rows, those for training.
/// Refused: less than one window, packed rows of another length.
core::result<token_range> tokens_of_text(const token_stream& stream, const corpus_options& options) {
  if (!stream.packed() && stream.size() <= options.sequence)
    return core::refused(
        fmt::format("the validation text has {} tokens, shorter than one sequence, which takes {} and "
                    "one more as the last target",
                    stream.size(), options.sequence));
  corpus_options whole = options;
  whole.validation_fraction = 0;
  TROUPE_ASSIGN(const auto split, parts_of_stream(stream, whole));
  return split.train;
}

}  // namespace

core::result<corpus> corpus::make(std::vector<weighted_stream> sources, const corpus_options& options,
                                  std::vector<validation_stream> validation) {
  std::vector<double> weights;
  for (const auto& s : sources) weights.push_back(s.weight);
  TROUPE_ASSIGN(const auto shares, shares_of(weights));
  std::vector<part> parts;
  std::optional<token_maker> maker;
  const auto check_maker = [&maker](const token_stream& stream) -> core::result<void> {
    const auto& other = stream.maker();
    if (!other) return {};
    if (maker) TROUPE_TRY(check_same_tokenizer(*maker, *other));
    maker = other;
    return {};
  };
  std::vector<held_out_part> ends;
  for (auto& s : sources) {
    TROUPE_TRY(check_maker(*s.stream));
    const auto split = parts_of_stream(*s.stream, options);
    if (!split) return core::fail(split.error().in(s.name));
    ends.push_back({s.stream, split->validation, s.name});
    parts.push_back({std::move(s.stream),
                     sample_order(split->train, options.sequence, seed_of(options.seed, parts.size()), options.shuffle),
                     std::move(s.name)});
  }
  corpus out(std::move(parts), interleave(shares), options);
  out.add_set({}, std::move(ends));
  for (auto& v : validation) {
    TROUPE_TRY(check_maker(*v.stream));
    const auto tokens = tokens_of_text(*v.stream, options);
    if (!tokens) return core::fail(tokens.error().in(v.name));
    std::vector<held_out_part> whole;
    whole.push_back({std::move(v.stream), *tokens, std::move(v.name)});
    out.add_set(std::move(v.set), std::move(whole));
  }
  return out;
}

corpus::corpus(std::vector<part> parts, interleave mix, const corpus_options& options)
    : parts_(std::move(parts)),
      mix_(std::move(mix)),
      sequence_(options.sequence),
      shuffle_(options.shuffle),
      document_mask_(options.document_mask),
      masking_(options.masking),
      refused_input_(options.refused_input) {
  selects_targets_ = masking_ != nullptr || std::any_of(parts_.begin(), parts_.end(),
                                                        [](const part& p) { return p.stream->selects_targets(); });
}

void corpus::add_set(std::string name, std::vector<held_out_part> parts) {
  for (const auto& p : parts) held_out_tokens_ += p.tokens.size();
  std::erase_if(parts, [&](const held_out_part& p) { return p.tokens.samples(sequence_) == 0; });
  if (parts.empty()) return;
  std::vector<uint64_t> windows;
  uint64_t all = 0;
  for (const auto& p : parts) {
    windows.push_back(p.tokens.samples(sequence_));
    all += windows.back();
  }
  held_out_.push_back({std::move(name), std::move(parts), interleave(windows), all});
}

const token_stream& corpus::stream(size_t i) const {
  if (i < parts_.size()) return *parts_[i].stream;
  return *held_out_[first_text() + i - parts_.size()].parts.front().stream;
}

corpus::window corpus::training(uint64_t position) const {
  const auto place = mix_.at(position);
  const auto& p = parts_[place.source];
  return {p.stream.get(), p.order.first_token_at(place.index), p.name};
}

corpus::window corpus::validation(uint64_t index, size_t set) const {
  assert(index < validation_windows(set));
  const auto& from = held_out_[set];
  const auto place = from.mix.at(index);
  const auto& p = from.parts[place.source];
  return {p.stream.get(), p.tokens.begin + place.index * sequence_, p.name};
}

uint64_t corpus::validation_windows(size_t set) const { return set < held_out_.size() ? held_out_[set].windows : 0; }

bool corpus::selects_targets_of(size_t set) const {
  if (masking_ != nullptr) return true;
  return set < held_out_.size() &&
         std::ranges::any_of(held_out_[set].parts, [](const held_out_part& p) { return p.stream->selects_targets(); });
}

uint64_t corpus::validation_tokens() const { return held_out_tokens_; }

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

core::result<uint64_t> corpus::validation_targets(uint64_t first, uint64_t count, size_t set) const {
  std::vector<int64_t> inputs(sequence_);
  uint64_t out = 0;
  for (uint64_t w = first; w < first + count; ++w) {
    const window from = validation(w, set);
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
  for (size_t i = 0; i < streams(); ++i)
    if (!stream(i).tokens_are_bytes()) return false;
  return true;
}

}  // namespace troupe::data
