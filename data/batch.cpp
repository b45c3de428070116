// Fills batches with windows of the sources' token streams; each row of a batch is one window of sequence + 1 tokens.
#include "data/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "core/math.hpp"
#include "data/corpus.hpp"
#include "data/masking.hpp"

namespace troupe::data {
namespace {

/// Returns the factor that makes the mean loss over `positions` the mean over `targets` of them; 0 without targets.
double factor_of(uint64_t positions, uint64_t targets) {
  return targets == 0 ? 0 : static_cast<double>(positions) / static_cast<double>(targets);
}

/// Refuses the inputs of a window if the token that no input may be is one of them.
core::result<void> check_inputs(const data::corpus& corpus, const data::corpus::window& from,
                                std::span<const int64_t> inputs) {
  const auto refused = corpus.refused_input();
  if (!refused) return {};
  const auto found = std::ranges::find(inputs, int64_t{*refused});
  if (found == inputs.end()) return {};
  return core::fail(core::error_kind::bad_input,
                    fmt::format("'{}': wanted texts without the padding token {}, to which the model gives no "
                                "position, got it as token {}; remove it from the text",
                                from.name, *refused, from.first + static_cast<uint64_t>(found - inputs.begin())));
}

/// Reads the tokens of a window into a row.
core::result<void> read_window(uint64_t /*row*/, const data::corpus::window& from, std::span<int64_t> to) {
  return from.stream->copy(from.first, to);
}

/// Returns a batch of `rows` rows: row `r` has the tokens of window(place(r)), which read(r, window, row) writes, and
/// place(r) as its sample number. `selects`: true if some inputs have no target.
template <class Place, class Window, class Read>
batch fill(const data::corpus& corpus, data_part part, bool selects, uint64_t rows, Place place, Window window,
           Read read) {
  batch out;
  out.rows = rows;
  out.columns = corpus.sequence() + 1;
  out.tokens.resize(rows * out.columns);
  out.samples.resize(rows);
  if (corpus.document_mask()) out.document_start.resize(rows * corpus.sequence());
  if (selects) out.targets.resize(rows * corpus.sequence());
  uint64_t targets = 0;
  for (uint64_t r = 0; r < rows; ++r) {
    const uint64_t at = place(r);
    const data::corpus::window from = window(at);
    const auto row = std::span(out.tokens).subspan(r * out.columns, out.columns);
    if (auto ok = read(r, from, row); !ok) {
      out.failure = ok.error();
      return out;
    }
    if (auto ok = check_inputs(corpus, from, row.first(corpus.sequence())); !ok) {
      out.failure = ok.error();
      return out;
    }
    if (corpus.document_mask())
      from.stream->document_starts(from.first, row.first(corpus.sequence()),
                                   std::span(out.document_start).subspan(r * corpus.sequence(), corpus.sequence()));
    if (selects) {
      const auto mine = std::span(out.targets).subspan(r * corpus.sequence(), corpus.sequence());
      targets += corpus.masking() != nullptr ? corpus.masking()->apply(part, at, row.first(corpus.sequence()), mine)
                                             : from.stream->find_targets(from.first, row, mine);
    }
    out.samples[r] = at;
  }
  if (selects) out.loss_factor = factor_of(out.targets.size(), targets);
  return out;
}

batch failed_batch(std::string why) {
  batch out;
  out.failure = core::error{core::error_kind::bad_input, std::move(why)};
  return out;
}

template <class Read>
batch training_rows(const corpus& corpus, uint64_t first, uint64_t rows, const left_out& skipped, Read read) {
  batch out = fill(
      corpus, data_part::training, corpus.selects_targets(), rows,
      [&](uint64_t r) { return skipped.position_of(first + r); },
      [&](uint64_t position) { return corpus.training(position); }, read);
  if (out.failure) return out;
  out.by_token = core::order_of_inputs(out.tokens, corpus.sequence());
  if (corpus.document_mask()) out.by_column = core::order_of_columns(out.document_start, corpus.sequence());
  return out;
}

/// Returns the samples of the step, which all its micro-batches take their rows from.
core::result<std::shared_ptr<const corpus::step_samples>> samples_of_step(const corpus& corpus,
                                                                          const batch_shape& shape, uint64_t step) {
  std::vector<uint64_t> positions(shape.rows_of(step));
  for (uint64_t n = 0; n < positions.size(); ++n)
    positions[n] = shape.skipped.position_of(shape.samples_before(step) + n);
  return corpus.read_step(positions);
}

/// Returns the micro-batch whose first row is row `begin` of the step's samples. Its rows are copies of the samples,
/// which are read once a step, because the loss is the mean over the targets of all of them.
batch counted_rows(const corpus& corpus, const batch_shape& shape, uint64_t step, uint64_t begin) {
  const auto read = samples_of_step(corpus, shape, step);
  if (!read) {
    batch out;
    out.failure = read.error();
    return out;
  }
  const data::corpus::step_samples& all = **read;
  const auto take = [&](uint64_t r, const data::corpus::window&, std::span<int64_t> to) -> core::result<void> {
    std::ranges::copy(std::span(all.tokens).subspan((begin + r) * to.size(), to.size()), to.begin());
    return {};
  };
  batch out = training_rows(corpus, shape.samples_before(step) + begin, shape.rows, shape.skipped, take);
  if (!out.failure) out.loss_factor = factor_of(shape.rows_of(step) * corpus.sequence(), all.targets);
  return out;
}

}  // namespace

batch_shape::ramp_part batch_shape::part_at(uint64_t sample) const {
  const uint64_t parts = (global_rows() - ramp.first_rows) / ramp.added_rows, at = sample * parts / ramp.samples;
  return {ramp.first_rows + at * ramp.added_rows, core::div_up((at + 1) * ramp.samples, parts)};
}

uint64_t batch_shape::samples_before(uint64_t step) const {
  uint64_t at = first_sample, left = step - first_step;
  while (left > 0 && at < ramp.samples) {
    const ramp_part now = part_at(at);
    const uint64_t steps = std::min(left, core::div_up(now.end - at, now.rows));
    at += steps * now.rows;
    left -= steps;
  }
  return at + left * global_rows();
}

uint64_t batch_shape::rows_from(uint64_t sample) const {
  return sample < ramp.samples ? part_at(sample).rows : global_rows();
}

batch_shape batch_shape::from_the_start() const {
  batch_shape out = *this;
  out.first_step = out.first_sample = 0;
  return out;
}

batch make_rows(const corpus& corpus, uint64_t first, uint64_t rows, const left_out& skipped) {
  return training_rows(corpus, first, rows, skipped, read_window);
}

core::result<uint64_t> targets_of_step(const corpus& corpus, const batch_shape& shape, uint64_t step) {
  TROUPE_ASSIGN(const auto samples, samples_of_step(corpus, shape, step));
  return samples->targets;
}

batch make_batch(const corpus& corpus, const batch_shape& shape, uint64_t step, uint32_t micro, uint32_t rank) {
  if (step < shape.first_step || micro >= shape.micros_of(step) || rank >= shape.ranks)
    return failed_batch(fmt::format(
        "no such micro-batch: number {} of rank {} in step {}; there are {} of {} data ranks, from step {} on", micro,
        rank, step, step < shape.first_step ? shape.micros : shape.micros_of(step), shape.ranks, shape.first_step));
  const uint64_t first = shape.first_sample_of(step, micro, rank);
  batch out = corpus.selects_targets() ? counted_rows(corpus, shape, step, first - shape.samples_before(step))
                                       : make_rows(corpus, first, shape.rows, shape.skipped);
  out.step = step;
  out.micro = micro;
  return out;
}

uint64_t validation_batches(const corpus& corpus, uint64_t rows, size_t set) {
  if (rows == 0) return 0;
  return core::div_up(corpus.validation_windows(set), rows);
}

uint64_t validation_rows(const corpus& corpus, uint64_t rows, uint64_t index, size_t set) {
  const uint64_t windows = corpus.validation_windows(set);
  return index < validation_batches(corpus, rows, set) ? std::min(rows, windows - index * rows) : 0;
}

core::result<double> validation_weight(const corpus& corpus, uint64_t rows, uint64_t index, size_t set) {
  const uint64_t windows = validation_rows(corpus, rows, index, set);
  if (!corpus.selects_targets_of(set)) return static_cast<double>(windows) / static_cast<double>(rows);
  TROUPE_ASSIGN(const uint64_t targets, corpus.validation_targets(index * rows, windows, set));
  return static_cast<double>(targets);
}

batch make_validation_batch(const corpus& corpus, uint64_t rows, uint64_t index, size_t set) {
  if (rows == 0 || index >= validation_batches(corpus, rows, set))
    return failed_batch(
        fmt::format("no such validation batch: number {} of {} rows each; there are {} windows, a row each", index,
                    rows, corpus.validation_windows(set)));
  const uint64_t first = index * rows;
  return fill(
      corpus, data_part::validation, corpus.selects_targets_of(set), validation_rows(corpus, rows, index, set),
      [&](uint64_t r) { return first + r; }, [&](uint64_t window) { return corpus.validation(window, set); },
      read_window);
}

uint64_t evaluations_of(const corpus& corpus, const batch_shape& shape, size_t set) {
  return core::div_up(corpus.validation_windows(set), shape.rows * shape.ranks);
}

uint64_t first_evaluation(const corpus& corpus, const batch_shape& shape, size_t set) {
  uint64_t out = 0;
  for (size_t before = 0; before < set; ++before) out += evaluations_of(corpus, shape, before);
  return out;
}

validation_place evaluated_place(const corpus& corpus, const batch_shape& shape, uint64_t number, uint32_t rank) {
  size_t set = 0;
  for (; set + 1 < corpus.validation_sets(); ++set) {
    const uint64_t here = evaluations_of(corpus, shape, set);
    if (number < here) break;
    number -= here;
  }
  const uint64_t batches = std::max<uint64_t>(1, validation_batches(corpus, shape.rows, set));
  return {set, (number * shape.ranks + rank) % batches};
}

}  // namespace troupe::data
